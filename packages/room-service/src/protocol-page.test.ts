/** docs/room-protocol.md says what the schemas, the constants and the service do. */
import { readFileSync } from "node:fs";
import {
  clientFrameSchema,
  DEFAULT_ROOM_LIMITS,
  deviceTokenSchema,
  MAX_FRAME_DEPTH,
  mayResumeAfter,
  meshTokenSchema,
  openedRoomSchema,
  openRoomBodySchema,
  peerStateSchema,
  ROOM_CLOSE,
  ROOM_ERROR_CODES,
  replyOutcomeSchema,
  roomErrorSchema,
  roomStatusSchema,
  serviceFrameSchema,
} from "@leafmesh/protocol";
import { describe, expect, it } from "vitest";
import type * as z from "zod";
import { CONFORMANCE_TESTS } from "./conformance/index.ts";
import { MAX_BODY_BYTES } from "./http/body.ts";
import { parseFrame } from "./room/frames.ts";

const page = readFileSync(new URL("../../../docs/room-protocol.md", import.meta.url), "utf8");
const section = (title: string): string => page.split(`\n## ${title}\n`)[1]?.split("\n## ")[0] ?? "";
const rows = (text: string): readonly string[][] =>
  [...text.matchAll(/^\| (.+) \|$/gm)].map(([, row = ""]) => row.split(" | ").map((cell) => cell.trim()));

const schemas: Readonly<Record<string, z.ZodType>> = {
  "open-room": openRoomBodySchema,
  "opened-room": openedRoomSchema,
  "room-status": roomStatusSchema,
  "device-token": deviceTokenSchema,
  "mesh-token": meshTokenSchema,
  error: roomErrorSchema,
  "client-frame": clientFrameSchema,
  "service-frame": serviceFrameSchema,
};

const examples = [...page.matchAll(/```json ?(\S*)\n([\s\S]*?)```/g)].map(([, kind = "", text = ""], index) => ({
  name: `${index + 1}, ${kind || "untitled"}`,
  kind,
  text,
}));

describe("the examples", () => {
  it.each(examples)("$name is what the schema says, with no field that it does not know", ({ kind, text }) => {
    const schema = schemas[kind];
    if (!schema) throw new Error(`no schema for an example called ${kind}`);
    const json: unknown = JSON.parse(text);
    expect(schema.parse(json)).toEqual(json);
    if (kind === "client-frame") expect(parseFrame(text).kind).not.toBe("malformed");
  });

  it("are there for every body and for both directions", () => {
    expect(new Set(examples.map(({ kind }) => kind))).toEqual(new Set(Object.keys(schemas)));
  });
});

describe("the tables", () => {
  it("list every frame with its fields", () => {
    const listed = new Map(rows(section("Frames")).map(([name = "", , fields = ""]) => [name, fields]));
    const all = [...clientFrameSchema.options, ...serviceFrameSchema.options];
    for (const { shape } of all) {
      const [type] = shape.type.values;
      const [name, fields] = [...listed].find(([cell]) => cell.includes(`\`${type}\``)) ?? [];
      expect(name, `frame ${type}`).toBeDefined();
      if (type === "welcome") continue;
      for (const field of Object.keys(shape).filter((key) => key !== "type")) {
        expect(fields, `${type}.${field}`).toMatch(new RegExp(`\`${field}\\??\``));
      }
    }
  });

  it("list the close codes, and whether to come back", () => {
    const listed = new Map(
      rows(section("Close codes")).flatMap(([codes = "", , back = ""]) =>
        codes.split(", ").map((code) => [Number(code), back.startsWith("with resume")] as const),
      ),
    );
    for (const code of Object.values(ROOM_CLOSE))
      expect([code, listed.get(code)]).toEqual([code, mayResumeAfter(code)]);
  });

  it("list the error codes of HTTP", () => {
    const listed = new Set(rows(section("HTTP")).map(([, code = ""]) => code.replaceAll("`", "")));
    for (const code of ROOM_ERROR_CODES) expect([code, listed.has(code)]).toEqual([code, true]);
    expect(page).toContain(`over ${MAX_BODY_BYTES / 1024} KiB`);
  });

  it("list the limits with their defaults", () => {
    const listed = new Map(
      rows(section("Limits")).flatMap(([names = "", values = ""]) => {
        const numbers = values.split(", ").map(Number);
        return names.split(", ").map((name, index) => [name.replaceAll("`", ""), numbers[index]] as const);
      }),
    );
    for (const [name, value] of Object.entries(DEFAULT_ROOM_LIMITS))
      expect([name, listed.get(name)]).toEqual([name, value]);
    expect(page).toContain(`nests deeper than ${MAX_FRAME_DEPTH} levels`);
  });

  it("list every conformance test", () => {
    const ranges = rows(section("Conformance")).map(([ids = ""]) => ids.split(/[–, ]+/));
    const covered = ({ id }: { id: string }) =>
      ranges.some(([first = "", last = first]) => {
        const [from, to, number] = [first, last, id].map((name) => Number(name.slice(1)));
        return (
          first[0] === id[0] &&
          from !== undefined &&
          to !== undefined &&
          number !== undefined &&
          number >= from &&
          number <= to
        );
      });
    expect(CONFORMANCE_TESTS.filter((test) => !covered(test))).toEqual([]);
  });

  it("know every state and outcome", () => {
    for (const word of [...peerStateSchema.options, ...replyOutcomeSchema.options])
      expect(page).toContain(`\`${word}\``);
  });
});

describe("the links inside the page", () => {
  it("lead somewhere", () => {
    const anchors = new Set(
      [...page.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
        title
          .toLowerCase()
          .replaceAll(/[^\w -]/g, "")
          .replaceAll(" ", "-"),
      ),
    );
    const links = [...page.matchAll(/\]\(#([\w-]+)\)/g)].map(([, anchor]) => anchor ?? "");
    expect(links.length).toBeGreaterThan(5);
    expect(links.filter((anchor) => !anchors.has(anchor))).toEqual([]);
  });
});
