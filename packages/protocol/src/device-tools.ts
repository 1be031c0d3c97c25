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
