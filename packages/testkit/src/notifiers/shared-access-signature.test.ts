import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { judgeSignature } from "./shared-access-signature.ts";

const KEY = Buffer.from("the key of the policy");
const NOW_MS = 1_800_000_000_000;

interface Signed {
  readonly resource?: string;
  readonly endsAt?: number | string;
  readonly key?: Buffer;
  readonly policy?: string;
  readonly encode?: (text: string) => string;
}

function header(signed: Signed = {}): string {
  const { resource = "https://acme.example/Hub", endsAt = 1_800_000_060, key = KEY, policy = "Ring" } = signed;
  const { encode = encodeURIComponent } = signed;
  const sr = encode(resource);
  const sig = createHmac("sha256", key).update(`${sr}\n${endsAt}`).digest("base64");
  return `SharedAccessSignature sr=${sr}&sig=${encodeURIComponent(sig)}&se=${endsAt}&skn=${encode(policy)}`;
}

const judge = (text: string | undefined, target = "acme.example/hub/messages/") =>
  judgeSignature({ header: text, target, keys: new Map([["Ring", KEY]]), nowMs: NOW_MS });

describe("a shared access signature", () => {
  it.each([
    ["of the resource, in another case", header()],
    ["of the whole host", header({ resource: "https://acme.example/" })],
    ["without a scheme, as IoT Hub has it", header({ resource: "acme.example" })],
    ["of exactly what is asked for", header({ resource: "https://acme.example/hub/messages" })],
    ["encoded with small letters, as .NET does", header({ encode: (text) => encodeURIComponent(text).toLowerCase() })],
  ])("is good: %s", (_name, text) => {
    const policies = new Map([
      ["Ring", KEY],
      ["ring", KEY],
    ]);
    const target = "acme.example/hub/messages/";
    expect(judgeSignature({ header: text, target, keys: policies, nowMs: NOW_MS })).toHaveProperty("policy");
  });

  it.each([
    ["missing", undefined],
    ["malformed", "Bearer abc"],
    ["malformed", header().replace("&skn=Ring", "")],
    ["malformed", `${header()} more`],
    ["malformed", header({ endsAt: "1800000060000" })],
    ["malformed", header({ endsAt: "soon" })],
    ["expired", header({ endsAt: 1_800_000_000 })],
    ["unknown_policy", header({ policy: "Another" })],
    ["signature", header({ key: Buffer.from("another key") })],
    ["signature", header().replace("se=1800000060", "se=1800000090")],
    ["signature", header().replace("%2FHub", "")],
    ["audience", header({ resource: "https://acme.example/Hu" })],
    ["audience", header({ resource: "https://acme.example/Hub/registrations" })],
    ["audience", header({ resource: "https://acme.example.evil/Hub" })],
  ])("is %s", (flaw, text) => expect(judge(text)).toEqual({ flaw }));
});
