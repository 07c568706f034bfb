// The contract of Pilothouse plugins for AssemblyScript: wit/ in Pilothouse's repository describes the functions, and docs/abi.md their form.
// Copy this folder to a project of your own.
//
// The compiler takes the names of exports from identifiers. A plugin therefore exports its functions under their aliases: `ph_describe`,
// `ph_reconcile`, `ph_observe` and `ph_values`.

export { cabi_realloc } from "./abi";
export { Filter, Row, Watch } from "./cache";
export { ApiError, ErrorCode, ListResponse, PatchType, Propagation, Response } from "./client";
export * from "./effects";
export * from "./exports";
export { quote } from "./json";
export { KubeObject, Owner, Page } from "./object";
export { Key, Kind, Pair } from "./types";
