/**
 * The body of `POST /chat/completions` as far as this server reads it. Unknown fields pass, as they do at the real API.
 * https://developers.openai.com/api/reference/resources/chat/subresources/completions/methods/create
 */
import * as z from "zod";

const textPart = z.looseObject({ type: z.literal("text"), text: z.string() });
const imagePart = z.looseObject({ type: z.literal("image_url"), image_url: z.looseObject({ url: z.string() }) });

const toolCall = z.looseObject({
  id: z.string(),
  type: z.literal("function"),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});

const message = z.discriminatedUnion("role", [
  z.looseObject({ role: z.literal("system"), content: z.union([z.string(), z.array(textPart)]) }),
  z.looseObject({ role: z.literal("developer"), content: z.union([z.string(), z.array(textPart)]) }),
  z.looseObject({ role: z.literal("user"), content: z.union([z.string(), z.array(z.union([textPart, imagePart]))]) }),
  z.looseObject({
    role: z.literal("assistant"),
    content: z.union([z.string(), z.null(), z.array(textPart)]).optional(),
    tool_calls: z.array(toolCall).optional(),
  }),
  z.looseObject({
    role: z.literal("tool"),
    tool_call_id: z.string(),
    content: z.union([z.string(), z.array(textPart)]),
  }),
]);

export const chatRequestSchema = z.looseObject({
  model: z.string(),
  messages: z.array(message),
  tools: z
    .array(
      z.looseObject({
        type: z.literal("function"),
        function: z.looseObject({
          name: z.string(),
          description: z.string().optional(),
          parameters: z.record(z.string(), z.unknown()).optional(),
        }),
      }),
    )
    .optional(),
  tool_choice: z.union([z.enum(["none", "auto", "required"]), z.looseObject({})]).optional(),
  parallel_tool_calls: z.boolean().optional(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  max_tokens: z.int().min(1).nullish(),
  max_completion_tokens: z.int().min(1).nullish(),
});

/** A request that was read; see the schema for the fields. */
export type ChatRequest = z.infer<typeof chatRequestSchema>;
export type ChatRequestMessage = ChatRequest["messages"][number];

/** A request, or why it is none. */
export type ParsedRequest =
  | { readonly request: ChatRequest }
  | { readonly request?: undefined; readonly problem: { readonly message: string; readonly param: string | null } };

/** Reads a body; what is wrong with it is told as the real API tells it. */
export function parseChatRequest(text: string): ParsedRequest {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return { problem: { message: "We could not parse the JSON body of your request.", param: null } };
  }
  const parsed = chatRequestSchema.safeParse(body);
  if (parsed.success) return { request: parsed.data };
  const issue = parsed.error.issues[0];
  const place = issue?.path.map(String).join(".") ?? "";
  return { problem: { message: `Invalid type for '${place}': ${issue?.message}.`, param: place } };
}
