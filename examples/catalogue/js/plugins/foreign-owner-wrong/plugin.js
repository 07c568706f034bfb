export { wrong as default } from "../../src/foreign-owner.js";
