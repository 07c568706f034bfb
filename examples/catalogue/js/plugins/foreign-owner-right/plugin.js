export { right as default } from "../../src/foreign-owner.js";
