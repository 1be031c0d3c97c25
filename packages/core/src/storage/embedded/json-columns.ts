/** What the JSON columns hold, and reading them with care: what does not fit is a damaged file, and says where. */
import {
  type Capability,
  capabilitySchema,
  type DeviceTool,
  type RunError,
  runErrorSchema,
  sessionEventPayloads,
} from "@leafmesh/protocol";
import * as z from "zod";
import {
  type LateResult,
  type NoticedEvent,
  type RunFailure,
  type RunOptions,
  StorageError,
  type StoredMessage,
} from "../contract.ts";

export const objectSchema = z.record(z.string(), z.unknown());
export const stringsSchema = z.array(z.string());
export const roomSchema = z.object({ connection: z.string().nullable(), label: z.string() });
export const capabilitiesSchema: z.ZodType<readonly Capability[]> = z.array(capabilitySchema);
export const errorSchema: z.ZodType<RunError> = runErrorSchema;
export const deviceToolsSchema: z.ZodType<readonly DeviceTool[]> = z.array(
  z.object({ tool_id: z.string(), description: z.string(), parameters: z.record(z.string(), z.json()) }),
);
export const failureSchema: z.ZodType<RunFailure> = z.object({ class: z.string(), detail: z.string() });
export const optionsSchema: z.ZodType<RunOptions> = z.object({
  clientTools: z.enum(["end", "suspend"]),
  clientToolTimeoutMs: z.number(),
  sealedCallbackUrl: z.string().optional(),
  replayOf: z.string().optional(),
});
export const noticedEventSchema: z.ZodType<NoticedEvent> = z.object({
  type: z.literal("device.token_dead"),
  payload: sessionEventPayloads["device.token_dead"],
});
export const lateSchema: z.ZodType<LateResult> = z.object({
  at: z.number(),
  digest: z.string(),
  result: z.unknown(),
  notedIn: z.string().optional(),
});
export const messageSchema: z.ZodType<StoredMessage> = z.discriminatedUnion("role", [
  z.object({ role: z.literal("user"), content: z.string() }),
  z.object({
    role: z.literal("assistant"),
    content: z.string().nullable(),
    toolCalls: z
      .array(z.object({ id: z.string(), name: z.string(), arguments: z.string() }))
      .readonly()
      .exactOptional(),
  }),
  z.object({
    role: z.literal("tool"),
    toolCallId: z.string(),
    content: z.string(),
    uploads: z.array(z.string()).readonly().optional(),
  }),
]);

export function toJson(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value);
}

export function fromOptionalJson<Value>(
  text: string | null,
  schema: z.ZodType<Value>,
  column: string,
  key: string,
): Value | undefined {
  return text === null ? undefined : fromJson(text, schema, column, key);
}

export function fromJson<Value>(text: string, schema: z.ZodType<Value>, column: string, key: string): Value {
  const damaged = (cause: unknown): StorageError =>
    new StorageError(
      "corrupt",
      `${column} of the row ${key} does not hold what LeafMesh wrote there; restore the database from a backup`,
      { cause },
    );
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw damaged(cause);
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw damaged(parsed.error);
  return parsed.data;
}
