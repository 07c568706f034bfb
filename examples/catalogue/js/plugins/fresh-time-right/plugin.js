export { right as default } from "../../src/fresh-time.js";
