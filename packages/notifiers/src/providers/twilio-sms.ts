/**
 * `twilio_sms`: a text message with a link to where the ring waits, one request to Twilio's Messages API. The ring itself
 * would not fit, and whoever carries a text can read it.
 */
import type { Secret } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type CheckResult,
  defineNotifier,
  type Notifier,
  type ProviderDependencies,
  type RingReceipt,
  type RingRequest,
} from "../contract.ts";
import { checkResult, createVendorClient, type VendorAnswer } from "../http/index.ts";
import { failedMessage, messageSchema, ringError } from "./twilio-sms-answers.ts";
import { createTextLimit } from "./twilio-sms-limit.ts";
import { twilioSmsOptionIssues, twilioSmsOptions } from "./twilio-sms-options.ts";
import { linkBase, textFor } from "./twilio-sms-text.ts";

/** https://www.twilio.com/docs/messaging/api/message-resource: the body is counted in characters. */
const MAX_CHARACTERS = 1600;
const MAX_VALIDITY_SECONDS = 36_000;
const API = "https://api.twilio.com/2010-04-01/Accounts";

type Options = z.output<typeof twilioSmsOptions>;

export const twilioSmsNotifier = defineNotifier({
  provider: "twilio_sms",
  title: "Twilio SMS",
  description: "Texts a person a link that works once: it opens a page where the request is allowed and answered.",
  options: twilioSmsOptions,
  pushToken: z
    .string()
    .regex(/^\+[1-9]\d{6,14}$/, "must be a phone number with + and the country's code, such as +15005550006"),
  traits: { maxBytes: MAX_CHARACTERS, ttl: true, collapse: false, silent: "never", link: true, deadTokens: true },
  docs: {
    setUp: [
      "Buy a number that can send texts in the Twilio Console under Phone Numbers, or make a messaging service under " +
        "Messaging → Services: the number, or the service's SID (`MG…`), is `from`.",
      "The Account SID on the Console's first page is `account_sid`. Beside it is the auth token: `auth_token`. Better is a " +
        "key of its own, which can be revoked alone: Account → API keys & tokens → Create API key, of the type Standard or " +
        "Restricted with the right to create messages. Its SID is `api_key_sid`, its secret `api_key_secret`.",
      "Switch the countries of your people on under Messaging → Settings → Geo permissions, and off all others.",
      "`link: mesh` opens the page that the mesh itself serves, at `/j/` below `server.public_url`. Another https address " +
        "is your own page or app (a universal or app link): the text carries it with `/` and the code, and the page hands " +
        "the code to `POST /j/{code}` of the mesh after a tap, which answers with the ring.",
    ],
    pushToken: "The person's phone number in E.164: `+`, the country's code, the number, no spaces.",
    onTheDevice: "Nothing is installed: the person opens the link in a browser.",
    check:
      "Reads the account with the credential, and looks for `from` among its numbers. `active` says that both " +
      "are right; whether a text passes the carrier shows when it is sent.",
    goodToKnow: [
      "A text is always seen, so `approval: silent` is refused at load.",
      "A link works once, expires with the ask, and gives nothing to a previewer that only fetches it.",
      "The mesh's page shows the action, its inputs and the reason with Allow and Don't allow. The person then does it by " +
        'hand, and says what came of it: the answer is `{ answered_by: "person", text?, photo? }`, `failed` or `declined`. ' +
        "The page joins LeafMesh rooms alone: the built-in ones, and the provider `room`.",
      "A text takes seconds on its way, and a person longer: set the agent's `join_timeout` and `reply_timeout` to 120 or more.",
      "With a link of up to 68 characters a text is one segment, which is what Twilio bills. The mesh's name begins it when " +
        "it fits and is plain letters, digits, spaces and `. , ' & ( ) + -`.",
      "Whoever may start conversations decides which numbers are texted, at your cost: hand keys only to your own backend, " +
        "let it take a number only from a person who proved to have it, and keep Geo permissions narrow. One number gets at " +
        "most 20 texts an hour from a mesh process.",
      "US numbers need A2P 10DLC (error 30034), toll-free numbers a verification (30032), some countries a registered " +
        "sender (30018). Carriers block public link shorteners: use a domain of your own.",
      "Twilio takes a text before the carrier has it. One that is filtered, blocked or undeliverable later ends the ask as " +
        "`not_joined`; its error code is in the Console's message log.",
      "Nothing that may have been sent is sent again: a request without an answer ends the ask as `unreachable`.",
    ],
    links: [
      "https://www.twilio.com/docs/messaging/api/message-resource",
      "https://www.twilio.com/docs/iam/api-keys",
      "https://www.twilio.com/docs/api/errors",
    ],
  },
  validate: twilioSmsOptionIssues,
  create: (options, dependencies) => new TwilioSms(options, dependencies),
});

class TwilioSms implements Notifier {
  readonly #options;
  readonly #dependencies;
  readonly #client;
  readonly #limit;

  constructor(options: Options, dependencies: ProviderDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    const { clock, network } = dependencies;
    // Twilio has no idempotency key: a second request is a second text.
    this.#client = createVendorClient({ clock, network, repeatsAreHarmless: false });
    this.#limit = createTextLimit(clock);
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const { links, publicUrl } = this.#dependencies;
    if (!links) throw new Error("a notifier that sends links was made without a place for them");
    const { from, link } = this.#options;
    const { ring, ttlMs } = request;
    this.#limit.count(to);
    const url = `${linkBase(link, publicUrl)}/${links.keep(request)}`;
    const form = new URLSearchParams({
      To: to.reveal(),
      [isService(from) ? "MessagingServiceSid" : "From"]: from,
      Body: textFor({ mesh: ring.mesh, ttlMs, url }),
      ValidityPeriod: String(Math.min(Math.max(Math.ceil(ttlMs / 1000), 1), MAX_VALIDITY_SECONDS)),
    });
    const answer = await this.#request("POST", "/Messages.json", signal, form.toString());
    const message = messageSchema.safeParse(answer.json);
    if (answer.status !== 201 || !message.success) throw ringError(answer);
    const { sid, error_code } = message.data;
    if (error_code) throw failedMessage(error_code);
    return { id: sid };
  }

  check(signal: AbortSignal): Promise<CheckResult> {
    return checkResult(async () => {
      const credential = this.#options.api_key_sid ? await this.#checkKey(signal) : await this.#checkAccount(signal);
      return credential.status === "active" ? this.#checkSender(signal) : credential;
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  /** The answer holds the account's auth token in clear: nothing but its status is read. */
  async #checkAccount(signal: AbortSignal): Promise<CheckResult> {
    const answer = await this.#request("GET", ".json", signal);
    const account = z.object({ status: z.string() }).safeParse(answer.json);
    if (answer.status !== 200 || !account.success) throw ringError(answer);
    if (account.data.status === "active") return { status: "active" };
    return { status: "failing", reason: "The Twilio account is not active: see its status in the Twilio Console." };
  }

  /** A key may send texts without being allowed to read accounts, or anything. */
  async #checkKey(signal: AbortSignal): Promise<CheckResult> {
    const answer = await this.#request("GET", "/Messages.json?PageSize=1", signal);
    if (answer.status === 200) return { status: "active" };
    const error = ringError(answer);
    if (error.code !== "70051") throw error;
    const reason =
      "Twilio does not know the API key, or it is restricted and may not list texts, which proves nothing.";
    return { status: "readable", reason };
  }

  /** Short codes, names and services are not in this list. */
  async #checkSender(signal: AbortSignal): Promise<CheckResult> {
    const { from } = this.#options;
    if (!from.startsWith("+")) return { status: "active" };
    const query = new URLSearchParams({ PhoneNumber: from, PageSize: "1" });
    const answer = await this.#request("GET", `/IncomingPhoneNumbers.json?${query}`, signal);
    const page = z.object({ incoming_phone_numbers: z.array(z.unknown()) }).safeParse(answer.json);
    // A restricted key need not read numbers to send from them.
    if (answer.status !== 200 || !page.success || page.data.incoming_phone_numbers.length > 0) {
      return { status: "active" };
    }
    const reason =
      "The credential works, but `from` is not among the account's numbers: check it, unless it is hosted.";
    return { status: "readable", reason };
  }

  #request(method: "GET" | "POST", path: string, signal: AbortSignal, form?: string): Promise<VendorAnswer> {
    const { account_sid, auth_token, api_key_sid, api_key_secret } = this.#options;
    const [user, password] = api_key_sid ? [api_key_sid, api_key_secret] : [account_sid, auth_token];
    const basic = Buffer.from(`${user}:${password?.reveal() ?? ""}`).toString("base64");
    const type = form === undefined ? {} : { "content-type": "application/x-www-form-urlencoded" };
    return this.#client.request({
      url: `${API}/${account_sid}${path}`,
      method,
      headers: { authorization: `Basic ${basic}`, accept: "application/json", ...type },
      body: form,
      signal,
    });
  }
}

function isService(from: string): boolean {
  return /^MG[0-9a-fA-F]{32}$/.test(from);
}
