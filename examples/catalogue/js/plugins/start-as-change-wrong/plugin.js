export { wrong as default } from "../../src/start-as-change.js";
