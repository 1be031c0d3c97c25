export { createEmbeddedBackend, type EmbeddedBackendOptions } from "./backend.ts";
