export { right as default } from "../../src/finalizer-branch.js";
