import * as z from "zod";

/** 1–128 ASCII letters, digits and `_ - . : @ |`; none of them is special in a topic, a URL segment or a log line. */
export const deviceIdSchema = z
  .string()
  .regex(/^[A-Za-z0-9_\-.:@|]{1,128}$/, "must be 1 to 128 letters, digits or the characters _ - . : @ |")
  .meta({ description: "The device's id: 1 to 128 letters, digits and the characters _ - . : @ |" });

export const MAX_DEVICES_PER_CONVERSATION = 16;
