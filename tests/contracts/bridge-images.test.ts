/** The device tool bridge: a result that carries an image. */
import type { ModelRequest } from "@leafmesh/core";
import { expect, it } from "vitest";
import { asks, says, toChatRequest } from "../../packages/server/src/test-runs.ts";
import { bridgeWorlds, SEND_SMS } from "../../packages/server/src/testing/bridge-world.ts";
import { describeOnBothStores } from "../support/stores.ts";
import { cites } from "./cites.ts";

/** A JPEG as far as its first bytes tell, which is as far as anybody looks. */
const jpeg = (mark: string): string =>
  Buffer.from([0xff, 0xd8, 0xff, 0xe0, ...Buffer.from(mark.padEnd(3_000, "."))]).toString("base64");

/** What the images of a request are, as they go over the wire. */
function imagesOf(request: ModelRequest | undefined): readonly string[] {
  if (!request) return [];
  return toChatRequest(request).messages.flatMap(({ content }) =>
    Array.isArray(content)
      ? content.flatMap((part: { image_url?: { url: string } }) => (part.image_url ? [part.image_url.url] : []))
      : [],
  );
}

function toolTextsOf(request: ModelRequest | undefined): readonly string[] {
  return (request?.messages ?? []).flatMap((message) => (message.role === "tool" ? [message.content] : []));
}

describeOnBothStores("the device tool bridge, an image in a result", (open) => {
  const { start } = bridgeWorlds(open);

  it(
    cites(
      "is seen by the model as an image, beside the rest of the result as text",
      "bridge.image.1",
      "bridge.image.2",
      "bridge.image.sample",
      "bridge.image.3a",
      "bridge.image.3b",
      "bridge.image.4",
    ),
    async () => {
      const world = await start();
      const { callId, ok, runId } = await world.withCall();
      const image_base64 = jpeg("MARKED");
      const result = { image_base64, image_media_type: "image/jpeg", screen_width: 1440, screen_height: 3120 };
      const posted = await world.post(callId, { ...ok, result });
      expect([posted.status, posted.body]).toEqual([200, { resolved: true }]);
      expect(await world.reply(runId)).toBe('{"status":"ok","result":{"screen_width":1440,"screen_height":3120}}');
      const read = world.requests.at(-1);
      expect(imagesOf(read)).toEqual([`data:image/jpeg;base64,${image_base64}`]);
      expect(toolTextsOf(read)).toEqual(['{"status":"ok","result":{"screen_width":1440,"screen_height":3120}}']);
    },
  );

  it(
    cites(
      "that is old is removed from a long conversation, with a note that it can be asked for again; the newest stays",
      "bridge.image.14a",
      "bridge.image.14b",
      "bridge.image.15",
    ),
    async () => {
      const MANY = 7;
      const world = await start({
        agents: { helper: { historyLimit: 100 } },
        answer: async ({ messages }) =>
          messages.findLast(({ content }) => typeof content === "string")?.role === "user"
            ? asks([SEND_SMS.tool_id, {}, `call_${messages.length}`])
            : says("Seen."),
      });
      const images: string[] = [];
      for (let number = 1; number <= MANY; number++) {
        const { callId, ok, runId, stream } = await world.withCall();
        images.push(jpeg(`IMAGE ${number}`));
        await world.post(callId, { ...ok, result: { number, image_base64: images.at(-1) } });
        expect(await world.reply(runId)).toBe("Seen.");
        stream.close();
      }
      const last = world.requests.at(-1);
      const shown = imagesOf(last);
      expect(shown.length).toBeLessThan(MANY);
      expect(shown).toEqual(images.slice(-shown.length).map((image) => `data:image/jpeg;base64,${image}`));
      const noted = toolTextsOf(last).map((text) => /not shown here.* can be asked for again/.test(text));
      expect(noted).toEqual(images.map((_, index) => index < MANY - shown.length));
    },
  );
});
