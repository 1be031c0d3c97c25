/** The fields of a `twilio_sms` record, and what only a look at several of them finds. */
import { operatorUrlIssue } from "@leafmesh/guarded-fetch";
import { secretString } from "@leafmesh/protocol";
import * as z from "zod";
import type { MeshFacts, OptionIssue } from "../contract.ts";
import { LINK_TO_MESH, meshPage } from "./twilio-sms-text.ts";

const FROM =
  /^(?:\+[1-9]\d{6,14}|\d{3,8}|MG[0-9a-fA-F]{32}|(?=.{1,11}$)(?=.*[A-Za-z])[A-Za-z0-9+\-_&](?:[A-Za-z0-9+\-_& ]*[A-Za-z0-9+\-_&])?)$/;

export const twilioSmsOptions = z.strictObject({
  account_sid: z
    .string()
    .regex(/^AC[0-9a-fA-F]{32}$/, "must be AC and 32 hexadecimal digits")
    .meta({ description: "Account SID: AC and 32 hexadecimal digits." }),
  from: z
    .string("must be a text, and YAML reads a bare phone number as a number")
    .regex(
      FROM,
      "must be a phone number such as +15005550006, a messaging service (MG…), a short code or a name of 1 to 11 letters",
    )
    .meta({
      description:
        'Who the text is from: a phone number in quotes ("+15005550006"), the SID of a messaging service (MG…), a short code or a name.',
    }),
  link: z.string().min(1, "must not be empty").max(200).meta({
    description:
      "Where the text leads: `mesh` for the mesh's own page, or the https address that the code is appended to.",
  }),
  auth_token: secretString("The account's auth token. Leave it out with an API key.").optional(),
  api_key_sid: z
    .string()
    .regex(/^SK[0-9a-fA-F]{32}$/, "must be SK and 32 hexadecimal digits")
    .optional()
    .meta({ description: "SID of an API key, SK and 32 hexadecimal digits, instead of the auth token." }),
  api_key_secret: secretString("The API key's secret.").optional(),
});
type Options = z.output<typeof twilioSmsOptions>;

/** Nothing here opens a connection. */
export function twilioSmsOptionIssues(options: Options, facts: MeshFacts = {}): readonly OptionIssue[] {
  const link = options.link === LINK_TO_MESH ? meshPageIssue(facts) : ownLinkIssue(options.link, facts.publicUrl);
  return [...credentialIssues(options), ...(link === undefined ? [] : [{ path: ["link"], message: link }])];
}

function credentialIssues({ auth_token, api_key_sid, api_key_secret }: Options): readonly OptionIssue[] {
  const hasKey = api_key_sid !== undefined || api_key_secret !== undefined;
  if (auth_token !== undefined && hasKey) {
    const path = [api_key_sid === undefined ? "api_key_secret" : "api_key_sid"];
    return [
      { path, message: "has no place beside auth_token: use the auth token or the API key, and remove the other" },
    ];
  }
  if (auth_token !== undefined) return [];
  if (!hasKey) return [{ path: [], message: "needs auth_token, or api_key_sid and api_key_secret" }];
  if (api_key_sid === undefined) return [{ path: ["api_key_sid"], message: "is needed with api_key_secret" }];
  return api_key_secret === undefined ? [{ path: ["api_key_secret"], message: "is needed with api_key_sid" }] : [];
}

/** What the device kit in the page has a connector for. */
const ROOMS_OF_THE_PAGE: readonly string[] = ["leafmesh", "room"];

function meshPageIssue({ publicUrl, roomProviders = [] }: MeshFacts): string | undefined {
  const elsewhere = roomProviders.filter((provider) => !ROOMS_OF_THE_PAGE.includes(provider));
  if (elsewhere.length > 0) {
    return (
      `leads to the mesh's own page, which joins LeafMesh rooms alone, and an agent uses this connection with a room of ` +
      `${elsewhere.join(", ")}: leave the agent's room out, or write the https address of your own page`
    );
  }
  if (publicUrl === undefined) {
    return "leads to the mesh's own page, which needs server.public_url: set it, or write the https address of your own page";
  }
  const issue = operatorUrlIssue(publicUrl, { secure: "https:", example: "https://mesh.example.com" });
  return issue && `leads below server.public_url, and that ${issue}`;
}

/** Characters that every carrier's alphabet has, so that the link does not make a text of one segment two. */
function ownLinkIssue(link: string, publicUrl: string | undefined): string | undefined {
  const issue = operatorUrlIssue(link, { secure: "https:", example: "https://go.example.com" });
  if (issue) return `${issue}; or write ${LINK_TO_MESH} for the mesh's own page`;
  if (!/^https?:\/\/[A-Za-z0-9.:-]+(?:\/[A-Za-z0-9._/-]*)?$/.test(link)) {
    return "must be letters, digits and . - _ / alone, without ? and #: the text carries it with / and a code";
  }
  if (publicUrl === undefined || !isBelow(link, publicUrl) || isBelow(link, meshPage(publicUrl))) return undefined;
  return `leads to this mesh, whose page is elsewhere: write ${LINK_TO_MESH}`;
}

function isBelow(link: string, base: string): boolean {
  const [inner, outer] = [link, base].map((address) => `${address.replace(/\/+$/, "")}/`);
  return outer !== undefined && inner?.startsWith(outer) === true;
}
