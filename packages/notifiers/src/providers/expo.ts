/**
 * `expo`: a ring is one notification through Expo's push service, which passes it on to Apple or Google.
 * https://docs.expo.dev/push-notifications/sending-notifications/
 */
import { type Secret, secretString } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type CheckResult,
  defineNotifier,
  type Notifier,
  type ProviderDependencies,
  type RingReceipt,
  type RingRequest,
} from "../contract.ts";
import { assertFits, checkResult, createVendorClient, type VendorAnswer } from "../http/index.ts";
import { acceptedTicket, type Receipts, readReceipts } from "./expo-answers.ts";
import { watchReceipts } from "./expo-receipts.ts";

/** What Apple and Google take. Expo itself takes more, and tells of it in the receipt. */
const MAX_BYTES = 4096;
const SEND_URL = "https://exp.host/--/api/v2/push/send";
const RECEIPTS_URL = "https://exp.host/--/api/v2/push/getReceipts";
/** The id of a ticket that nobody has. */
const NO_TICKET = "00000000-0000-4000-8000-000000000000";

const options = z.strictObject({
  access_token: secretString(
    "Account settings → Access tokens. Needed when the project turns on enhanced security for push.",
  ).optional(),
});
type Options = z.output<typeof options>;

export const expoNotifier = defineNotifier({
  provider: "expo",
  title: "Expo Push",
  description: "Rings apps that are built with Expo, on iOS and Android, through Expo's push service.",
  options,
  pushToken: z
    .string()
    .regex(
      /^(?:Expo(?:nent)?PushToken\[[\x21-\x5a\x5c\x5e-\x7e]{1,200}\]|[A-Za-z\d]{8}-(?:[A-Za-z\d]{4}-){3}[A-Za-z\d]{12})$/,
      "must be an Expo push token, such as ExponentPushToken[…]",
    ),
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: true, silent: "best-effort", link: false, deadTokens: true },
  docs: {
    setUp: [
      "Give Expo the app's credentials with `eas credentials`: an APNs key for iOS, and a service account of Firebase " +
        "(FCM v1) for Android.",
      "In the app, register a category `LEAF_ALLOW` with the actions Allow and Deny (`setNotificationCategoryAsync`), " +
        "and a background task (`registerTaskAsync`) for silent rings. On iOS these need remote notifications among the " +
        "background modes.",
      "Turn on enhanced security for push in the account's access token settings, and make a token of a robot user " +
        "there: it is `access_token`. Without it, whoever has a push token can ring the device.",
    ],
    pushToken: "What `getExpoPushTokenAsync()` of expo-notifications answers: `ExponentPushToken[…]`.",
    onTheDevice:
      "Takes `data.leafmesh` in a notification listener or a background task, registers the category " +
      "`LEAF_ALLOW` with Allow and Deny, and joins.",
    check:
      "Asks for a receipt that does not exist. It proves `access_token`, and not that its owner may push for " +
      "your project: that shows at the first ring. Without `access_token` there is nothing to prove, and the " +
      "verdict is `readable`.",
    goodToKnow: [
      "`ask` shows a notification of the category `LEAF_ALLOW` with the ring in `data.leafmesh`. `silent` is a headless " +
        "background notification: iOS grants two or three an hour, neither system delivers them to an app that the " +
        "person has stopped by force, and Expo Go never.",
      "Expo takes a ring before Apple or Google have seen it. What these refuse ends as `not_joined`; the reason comes " +
        "with Expo's receipt, which is looked up about 15 minutes later and logged. A restart of the mesh forgets the " +
        "receipts that it waited for.",
      "Expo says that a token is dead in its first answer only once it has learned of it from an earlier notification.",

      "A project may send 600 notifications a second.",
    ],
    links: [
      "https://docs.expo.dev/push-notifications/sending-notifications/",
      "https://docs.expo.dev/push-notifications/what-you-need-to-know/",
      "https://docs.expo.dev/accounts/programmatic-access/",
    ],
  },
  validate({ access_token }) {
    const issue = access_token && accessTokenIssue(access_token);
    return issue ? [{ path: ["access_token"], message: issue }] : [];
  },
  create: (fields, dependencies) => new Expo(fields, dependencies),
});

class Expo implements Notifier {
  readonly #options;
  readonly #client;
  readonly #receipts;

  constructor(fields: Options, { clock, logger, network }: ProviderDependencies) {
    this.#options = fields;
    this.#client = createVendorClient({ clock, network });
    this.#receipts = watchReceipts({ clock, logger, read: (tickets, signal) => this.#read(tickets, signal) });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const message = JSON.stringify(toMessage(request, to));
    assertFits(message, MAX_BYTES);
    const id = acceptedTicket(await this.#post(SEND_URL, message, signal));
    this.#receipts.add(id);
    return { id };
  }

  check(signal: AbortSignal): Promise<CheckResult> {
    return checkResult(async () => {
      await this.#read([NO_TICKET], signal);
      if (this.#options.access_token) return { status: "active" };
      const reason = "Expo answers, and without access_token there is nothing to prove: only a ring shows more.";
      return { status: "readable", reason };
    });
  }

  async close(): Promise<void> {
    await Promise.all([this.#receipts.close(), this.#client.close()]);
  }

  async #read(ids: readonly string[], signal: AbortSignal): Promise<Receipts> {
    return readReceipts(await this.#post(RECEIPTS_URL, JSON.stringify({ ids }), signal), ids);
  }

  #post(url: string, body: string, signal: AbortSignal): Promise<VendorAnswer> {
    const { access_token } = this.#options;
    const headers = {
      "content-type": "application/json",
      accept: "application/json",
      ...(access_token ? { authorization: `Bearer ${access_token.reveal()}` } : {}),
    };
    return this.#client.request({ url, headers, body, signal });
  }
}

const UNNAMED = "A mesh";
const QUESTION = "Allow this connection?";

/**
 * With any field that is for showing, `tag` and `sound` included, it would not be headless any more.
 * https://docs.expo.dev/push-notifications/sending-notifications/#message-request-format
 */
function toMessage({ ring, body, collapseKey, ttlMs, approval }: RingRequest, to: Secret): object {
  const shown = {
    title: ring.mesh ?? UNNAMED,
    body: QUESTION,
    categoryId: "LEAF_ALLOW",
    sound: "default",
    interruptionLevel: "time-sensitive",
    tag: collapseKey,
  };
  return {
    to: to.reveal(),
    data: { leafmesh: body },
    priority: "high",
    ttl: Math.max(1, Math.ceil(ttlMs / 1000)),
    collapseId: collapseKey,
    ...(approval === "ask" ? shown : { contentAvailable: true }),
  };
}

/** It goes into a header as it is. */
function accessTokenIssue(token: Secret): string | undefined {
  const text = token.reveal();
  if (/^bearer\s/i.test(text)) return "must be the token alone, without Bearer before it";
  return /^[\x21-\x7e]+$/.test(text) ? undefined : "must be one word: copy the token again, without spaces and breaks";
}
