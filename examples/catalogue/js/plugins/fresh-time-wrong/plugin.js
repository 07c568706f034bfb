export { wrong as default } from "../../src/fresh-time.js";
