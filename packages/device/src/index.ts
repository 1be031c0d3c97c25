export { decline, type FailOptions, fail, type SpecialAnswer, sendForApproval } from "./answers.ts";
export { type BrowserLedger, type BrowserLedgerOptions, openBrowserLedger } from "./browser-ledger.ts";
export {
  type Connector,
  type DeviceRoom,
  type DeviceRoomEvent,
  JoinError,
  type JoinErrorKind,
  type JoinOptions,
  type QueueResult,
  type RoomEnd,
} from "./connector.ts";
export { type LeafmeshConnectorOptions, leafmeshConnector } from "./connectors/leafmesh.ts";
export { type ApprovalQuestion, createDevice, type Device, type DeviceOptions } from "./device.ts";
export {
  connectDirect,
  type DirectConnection,
  type DirectOptions,
  type DirectState,
  directAddress,
} from "./direct.ts";
export { createEventQueue, type EventQueue } from "./event-queue.ts";
export type { DeviceEvent, IgnoreReason, RingDisposition } from "./events.ts";
export { type StopCause, type Task, type TaskHandler, TaskStopped } from "./handlers.ts";
export { createMemoryLedger, type Ledger, type LedgerRecord } from "./ledger.ts";
export { fetchMeshKeys, MESH_KEYS_PATH, parseMeshKeys } from "./mesh-keys.ts";
export type { RingFault } from "./ring-gate.ts";
export type { WebSocketConstructor, WebSocketLike } from "./socket.ts";
export { UploadError, type UploadErrorKind, type UploadReference } from "./uploads.ts";
