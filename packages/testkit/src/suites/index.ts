export { type BackendUnderTest, testBackend } from "./backend.ts";
