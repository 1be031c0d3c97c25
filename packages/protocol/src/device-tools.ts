/** Tools that a client declares on a session and answers over its event stream. Written outside the mesh: data, size-capped. */
import * as z from "zod";

export const MAX_DEVICE_TOOLS = 64;
/** Of one tool's `parameters`, as JSON text in UTF-8. */
export const MAX_DEVICE_TOOL_SCHEMA_BYTES = 16 * 1024;
/** Of a whole `context.device_tools`, as JSON text in UTF-8. */
export const MAX_DEVICE_TOOLS_BYTES = 256 * 1024;

export const deviceToolIdSchema = z
  .string()
  .regex(/^device_[a-z0-9_]{1,48}$/, "must be device_ and 1 to 48 lower-case letters, digits or underscores");

/** One entry of `context.device_tools`. */
export const deviceToolSchema = z.strictObject({
  tool_id: deviceToolIdSchema.meta({ description: "The tool's name, as the model calls it." }),
  description: z
    .string()
    .refine((text) => text.trim() !== "", "must not be blank")
    .meta({ description: "What the model reads about the tool." }),
  parameters: z
    .record(z.string(), z.json())
    .refine((schema) => schema.type === undefined || schema.type === "object", {
      message: 'must be "object" when it is there',
      path: ["type"],
    })
    .meta({ description: "JSON Schema of the arguments; the model sees it as it is." }),
});
export type DeviceTool = z.infer<typeof deviceToolSchema>;

/** `GET /api/sessions/{id}/device_tools` */
export const openDeviceToolCallsSchema = z.object({
  calls: z.array(
    z.object({
      call_id: z.string(),
      call_token: z.string().optional().meta({ description: "Only for a caller that says it executes device tools." }),
      tool_id: z.string(),
      args: z.record(z.string(), z.json()),
      expires_at: z.number().meta({ description: "Seconds since the epoch." }),
    }),
  ),
});

/** `POST /api/sessions/{id}/device_tools/{call_id}/result`, as documented; keys beyond these are ignored. */
export const deviceToolResultSchema = z.object({
  call_token: z.string().min(1).meta({ description: "From the frame that brought the call; good for one result." }),
  status: z.enum(["ok", "error"]),
  result: z.json().optional().meta({
    description:
      "With `ok`: any JSON. An object may carry one image in `image_base64`, of the type `image_media_type` (default image/jpeg).",
  }),
  error: z
    .object({ code: z.string().optional(), message: z.string().optional() })
    .optional()
    .meta({ description: "With `error`: at least one of the two is not blank." }),
});
export type DeviceToolResult = z.infer<typeof deviceToolResultSchema>;
