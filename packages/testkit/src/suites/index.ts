export { aCall, aRun, aSession, aWait } from "./backend/records.ts";
export { type BackendUnderTest, testBackend } from "./backend.ts";
export { type NotifierCase, onStage as onNotifierStage } from "./notifier/case.ts";
export type {
  DocumentedAnswer,
  DocumentedCheck,
  NotifierDouble,
  NotifierUnderTest,
  ReceivedRing,
  RequestPurpose,
} from "./notifier/under-test.ts";
export { notifierCases, testNotifier } from "./notifier.ts";
export type { RoomServiceUnderTest, RoomSuiteOptions, SuiteConnector } from "./room/harness.ts";
export { Mailbox } from "./room/mailbox.ts";
export { type MeshRoom, patient, type RoomMesh, startRoomMesh } from "./room/mesh.ts";
export { testRoom } from "./room.ts";
