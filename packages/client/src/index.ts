export {
  type Client,
  type ClientOptions,
  createClient,
  type EntryPoints,
  type Health,
  type MessageBody,
  type RunBody,
  type SessionBody,
  type ToolBody,
  type UploadBody,
} from "./client.ts";
export { LeafMeshError } from "./errors.ts";
export type { Answer } from "./executor/answer.ts";
export {
  type BrowserCallLedger,
  type BrowserCallLedgerOptions,
  type CallEntry,
  type CallLedger,
  createMemoryCallLedger,
  openBrowserCallLedger,
} from "./executor/entries.ts";
export type { ExecutorEvent } from "./executor/events.ts";
export {
  type Attachment,
  type AttachmentEnd,
  type AttachOptions,
  createExecutor,
  type Executor,
  type ExecutorOptions,
  type ServeRunOptions,
} from "./executor/executor.ts";
export type { Locks } from "./executor/locks.ts";
export type { Allow } from "./executor/perform.ts";
export {
  CallStopped,
  type ClientTool,
  type ImageMediaType,
  image,
  type JsonValue,
  type StopCause,
  type ToolCall,
  type ToolContext,
  ToolError,
  ToolImage,
} from "./executor/tool.ts";
export type { ConnectionState, FollowOptions } from "./follow.ts";
export type { MeshEvent, StoredMeshEvent, TransientMeshEvent, UnknownMeshEvent } from "./mesh-events.ts";
export type { MessageStream } from "./message-stream.ts";
export type { Run, RunEvents, RunEventsQuery, RunFrames, SubmitOptions, ToolResult } from "./run.ts";
export type {
  AcceptedRun,
  AsksQuery,
  DeviceToolAnswer,
  EventsOptions,
  MeshEvents,
  OpenDeviceToolCall,
  QueryBody,
  Session,
} from "./session.ts";
export type { CallOptions } from "./transport.ts";
