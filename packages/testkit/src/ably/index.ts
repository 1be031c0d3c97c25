export type { AblyError } from "./credentials.ts";
export { ABLY_ERRORS } from "./credentials.ts";
export { type AblyDouble, type AblyDoubleOptions, type AblyPhase, startAblyDouble } from "./server.ts";
