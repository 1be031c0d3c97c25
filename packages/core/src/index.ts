export type { DeviceToolAnswer, DeviceToolAnswered } from "./bridge/answer-call.ts";
export type { EventNotices } from "./callbacks/event-notices.ts";
export { frameView } from "./callbacks/notice.ts";
export { type AskQuery, getAsk, isOpenCall, listAsks } from "./calls/index.ts";
export type { Answer, Resumed, ResumeRefusal, ResumeRefusalCode } from "./client-tools/resume.ts";
export { runState } from "./client-tools/run-state.ts";
export { findUnknownTools, type UnknownTool } from "./client-tools/unknown-tools.ts";
export type {
  Agent,
  ApiKey,
  CallbackSettings,
  ClientTool,
  Connection,
  DeclaredTool,
  DeviceBlock,
  EntryPoint,
  HttpTool,
  Limits,
  Mesh,
  ModelEndpoint,
  ServerSettings,
  StorageSettings,
} from "./config/mesh.ts";
export {
  type ChatMessage,
  type ImagePart,
  type Model,
  type ModelAnswer,
  ModelError,
  type ModelErrorKind,
  type ModelRequest,
  type Models,
  type ModelToolCall,
  type TextPart,
} from "./models/contract.ts";
export type {
  NotifierDescription,
  ProviderDescription,
  ProviderIssue,
  ProviderRegistry,
  RoomDescription,
} from "./providers/registry.ts";
export { createEngine, type Engine, type EngineDependencies } from "./runs/engine.ts";
export { EngineError, type EngineErrorCode } from "./runs/engine-error.ts";
export { type Interruption, RunInterrupted } from "./runs/run-control.ts";
export type { UploadReader } from "./runs/shown-images.ts";
export type { DeviceInput } from "./sessions/device-list.ts";
export type { ConversationDevice, DeviceDirectory } from "./sessions/devices.ts";
export type { SubmitRunRequest } from "./sessions/keyed-submit.ts";
export type { CreateSessionRequest, RunRequest, SubmitRequest, Submitted } from "./sessions/session-service.ts";
export {
  type Backend,
  type CallbackPatch,
  type CallbackRecord,
  type CallFace,
  type CallPatch,
  type CallRecord,
  type CallState,
  type Closable,
  type CommitResult,
  type DeviceRecord,
  type IdempotencyRecord,
  type LateResult,
  type MessageRecord,
  type NoticedEvent,
  type OfferRecord,
  OPEN_CALL_STATES,
  type PageOfEvents,
  type PageOfFrames,
  type RunFailure,
  type RunFrame,
  type RunListener,
  type RunOptions,
  type RunPatch,
  type RunQueue,
  type RunRecord,
  SETTLED_CALL_STATES,
  type SessionListener,
  type SessionPresence,
  type SessionRecord,
  type SessionSummary,
  StorageError,
  type StoredFrame,
  type StoredMessage,
  type ToolRecord,
  type UploadRecord,
  type WaitRecord,
  type Write,
} from "./storage/contract.ts";
export type {
  CallWatcher,
  JsonSchema,
  Tool,
  ToolDefinition,
  ToolInvocation,
  ToolProvider,
  ToolResult,
  ToolScope,
  WaitingCall,
} from "./tools/contract.ts";
export type { Uploads } from "./uploads/index.ts";
