/** Twilio's own client takes the double for its API, answers and refusals alike: so the double asks for what Twilio asks. */
import { Agent, type AgentOptions } from "node:https";
import { connect } from "node:tls";
import { startTwilioSms, type TwilioSmsDouble } from "@leafmesh/testkit/notifiers";
import twilio from "twilio";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const HEX = "0123456789abcdef0123456789abcdef";
const [SID, KEY, SERVICE] = [`AC${HEX}`, `SK${HEX}`, `MG${HEX}`];
const [TO, FROM] = ["+15558675310", "+15005550006"];

let double: TwilioSmsDouble;
beforeAll(async () => {
  double = await startTwilioSms({
    sid: SID,
    authToken: "the-auth-token",
    keys: [
      { sid: KEY, secret: "standard" },
      { sid: `${KEY.slice(0, -1)}0`, secret: "restricted", may: ["create_messages"] },
    ],
    numbers: [FROM],
    otherSenders: [SERVICE],
  });
});
afterAll(() => double.close());

/** Everything is the client's own but the socket. */
function client(user = SID, password = "the-auth-token") {
  const { ca, route } = double.server.network;
  const httpClient = new twilio.RequestClient();
  httpClient.axios.defaults.httpsAgent = new (class Led extends Agent {
    override createConnection({ host }: AgentOptions) {
      return connect({ ...route(host ?? "", 443), ca, servername: host ?? "" });
    }
  })();
  return twilio(user, password, { accountSid: SID, httpClient });
}

describe("the double of Twilio", () => {
  it("takes a text of Twilio's client, with each credential and sender, and answers as it expects", async () => {
    const text = { to: TO, from: FROM, body: "Hello: https://go.example.com/1", validityPeriod: 60 };
    const message = await client().messages.create(text);
    expect(message).toMatchObject({ status: "queued", errorCode: null, numSegments: "1", to: TO, from: FROM });
    expect(message.dateCreated).toBeInstanceOf(Date);
    const { from: _from, ...rest } = text;
    const byService = await client(KEY, "standard").messages.create({ ...rest, messagingServiceSid: SERVICE });
    expect(byService).toMatchObject({ status: "accepted", messagingServiceSid: SERVICE });
    expect(double.rings.at(-1)).toEqual({ to: TO, body: text.body, isShown: true, ttlSeconds: 60 });
  });

  it.each([
    ["a number that is none", { to: "+1", from: FROM, body: "x" }, 400, 21211],
    ["no sender", { to: TO, body: "x" }, 400, 21603],
    ["a sender of somebody else", { to: TO, from: "+15005550001", body: "x" }, 400, 21660],
    ["no text", { to: TO, from: FROM, body: "" }, 400, 21602],
    ["a text that is too long", { to: TO, from: FROM, body: "x".repeat(1601) }, 400, 21617],
  ])("refuses %s", async (_what, text, status, code) => {
    await expect(client().messages.create(text)).rejects.toMatchObject({
      status,
      code,
      moreInfo: `https://www.twilio.com/docs/errors/${code}`,
    });
  });

  it("knows credentials and what they may do", async () => {
    const account = await client().api.v2010.accounts(SID).fetch();
    expect(account.status).toBe("active");
    expect(await client(KEY, "standard").messages.list({ limit: 1 })).toHaveLength(1);
    expect(await client().incomingPhoneNumbers.list({ phoneNumber: FROM, limit: 1 })).toMatchObject([
      { phoneNumber: FROM },
    ]);
    const refused = (reading: Promise<unknown>, code: number) =>
      expect(reading).rejects.toMatchObject({ status: 401, code });
    await refused(client(SID, "guessed").messages.list({ limit: 1 }), 20003);
    await refused(client(KEY, "standard").api.v2010.accounts(SID).fetch(), 20003);
    await refused(client(`${KEY.slice(0, -1)}0`, "restricted").messages.list({ limit: 1 }), 70051);
  });
});
