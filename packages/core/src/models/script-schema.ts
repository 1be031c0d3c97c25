/**
 * What a script may hold. A script is a list, of one of two kinds:
 *
 * - *steps*: the first answers the first model call of a conversation, the second the second, and so on. Which call it
 *   is is read from the request (the assistant messages in it), so conversations at the same time do not mix, and a
 *   call that is repeated gets the same answer. The agent's `history_limit` has to cover the conversation.
 * - *rules*, each with `when`: the first that fits what the conversation came to answers.
 */
import * as z from "zod";
import { findPlaceholders, isKnownPlaceholder } from "./placeholders.ts";

const toolResultCondition = z
  .strictObject({
    tool: z.string().optional().meta({ description: "Name of the tool." }),
    outcome: z.string().optional().meta({ description: "The result's `outcome`, such as `done` or `not_joined`." }),
    reason: z.string().optional().meta({ description: "The result's `reason`, such as `dead_token`." }),
    success: z.boolean().optional().meta({ description: "The result's `success`." }),
    contains: z.string().optional().meta({ description: "Text that the result holds, in any case." }),
  })
  .meta({ description: "One of the newest tool results fits all that is given here; `{}` fits any." });

const condition = z.strictObject({
  last_user: z
    .string()
    .optional()
    .meta({ description: "Text that the user's newest message holds, in any case; the empty text fits any message." }),
  tool_result: toolResultCondition.optional(),
  turn: z
    .int()
    .min(1)
    .optional()
    .meta({ description: "Which model call since the user's newest message this is, from 1." }),
  model: z.string().optional().meta({ description: "The model's name, as after the slash in the agent's `model`." }),
});

const scriptCall = z.strictObject({
  tool: z.string().min(1, "must name a tool"),
  arguments: z.record(z.string(), z.json()).default({}),
});

const scriptEntry = z
  .strictObject({
    when: condition.optional(),
    reply: z.string().optional().meta({
      description:
        "Text of the answer. `{{tool.outcome}}` and the like quote the tool result that the entry is about, `{{tool}}` the whole of it, `{{user}}` the user's newest message.",
    }),
    call: z.array(scriptCall).min(1, "must list at least one call").optional(),
    delay_ms: z
      .int()
      .min(0)
      .max(600_000)
      .optional()
      .meta({ description: "How long the model thinks, in milliseconds." }),
    stream_words: z.boolean().optional().meta({ description: "Hand the reply out word by word." }),
  })
  .superRefine((entry, context) => {
    if (entry.reply === undefined && entry.call === undefined) {
      context.addIssue({ code: "custom", message: "must have a reply or a call" });
    }
    for (const placeholder of findPlaceholders(entry.reply ?? "")) {
      if (!isKnownPlaceholder(placeholder)) {
        const message = `quotes {{${placeholder}}}, which is neither {{tool}}, {{tool.some.field}} nor {{user}}`;
        context.addIssue({ code: "custom", path: ["reply"], message });
      } else if (placeholder.startsWith("tool") && entry.when && !entry.when.tool_result) {
        const message = `quotes {{${placeholder}}}, but its \`when\` does not ask for a tool_result`;
        context.addIssue({ code: "custom", path: ["reply"], message });
      }
    }
  });

export const scriptSchema = z
  .array(scriptEntry)
  .min(1, "must list at least one step or rule")
  .superRefine((entries, context) => {
    const odd = entries.findIndex((entry) => (entry.when === undefined) !== (entries[0]?.when === undefined));
    if (odd > 0) {
      const message = "a script is either all steps or all rules: `when` belongs on every entry or on none";
      context.addIssue({ code: "custom", path: [odd], message });
    }
  });

/** A script as it is written, in a file or in code. */
export type ScriptInput = z.input<typeof scriptSchema>;
/** A script as it was read. */
export type Script = z.output<typeof scriptSchema>;
export type ScriptEntry = Script[number];
export type ScriptCondition = NonNullable<ScriptEntry["when"]>;
