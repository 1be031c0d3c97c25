export { aCall, aRun, aSession, aWait } from "./backend/records.ts";
export { type BackendUnderTest, testBackend } from "./backend.ts";
