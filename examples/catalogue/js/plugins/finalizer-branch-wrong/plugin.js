export { wrong as default } from "../../src/finalizer-branch.js";
