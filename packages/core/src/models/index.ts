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
} from "./contract.ts";
export { createModels, type ModelsOptions } from "./factory.ts";
export {
  answerWithRetries,
  DEFAULT_RETRY_POLICY,
  type FailedAttempt,
  type Retry,
  type RetryOptions,
  type RetryPolicy,
  retryDelayMs,
} from "./retry.ts";
export type { ScriptInput } from "./script-schema.ts";
export {
  createScriptedModel,
  type ScriptedModel,
  type ScriptedModelOptions,
  type ScriptFunction,
} from "./scripted.ts";
