export {
  type ConnectionCheck,
  type ConnectionPool,
  type ConnectionPoolOptions,
  createConnectionPool,
  type NotifierHandle,
  type RoomHandle,
} from "./connections.ts";
export {
  createDeviceAction,
  type DeviceAction,
  type DeviceActionDependencies,
} from "./tool.ts";
export { DEVICE_ACTION } from "./tool-definition.ts";
export type { AskUploads, BroughtFile, UploadRequest } from "./uploads.ts";
