// The contract of Pilothouse plugins (wit/ in its repository) for AssemblyScript. Copy this folder and ../../export-names.mjs to a project of
// your own.

export { cabi_realloc } from "./abi";
export { Filter, Row, Watch } from "./cache";
export { ApiError, ErrorCode, ListResponse, PatchType, Propagation, Response } from "./client";
export * from "./effects";
export * from "./exports";
export { quote } from "./json";
export { KubeObject, Owner, Page } from "./object";
export { Key, Kind, Pair } from "./types";
