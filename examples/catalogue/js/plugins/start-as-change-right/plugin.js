export { right as default } from "../../src/start-as-change.js";
