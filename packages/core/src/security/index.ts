export { KeyFileError } from "./key-file.ts";
export {
  createLogger,
  LOG_LEVELS,
  type LoggerOptions,
  type LogLevel,
  type LogStream,
  type RedactingLogger,
} from "./logger.ts";
export { loadMeshKey, shareMeshKey } from "./mesh-key.ts";
export { createSealer, SECRET_KEY_BYTES, SealError, type SealErrorCode, type Sealer } from "./sealer.ts";
export { loadSecretKey, SECRET_KEY_VARIABLE, SecretKeyError, type SecretKeyOptions } from "./secret-key.ts";
export { hashToken, tokensMatch } from "./tokens.ts";
