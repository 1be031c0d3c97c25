/**
 * Whose an access key is, which AWS says of every key that is good, whatever rights it has. For connection tests.
 * https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
 */
import type { Clock } from "@leafmesh/protocol";
import { RingError } from "../contract.ts";
import type { createVendorClient } from "../http/index.ts";
import { type AccessKey, awsDomain, signAws } from "./aws-access-key.ts";
import { keyRefusal, xmlError } from "./aws-refusals.ts";

/**
 * The account that the key belongs to, in twelve digits. Throws {@link RingError}: `bad_credential` when the key is
 * refused, `transient` when nothing was said of it.
 */
export async function callerAccount(
  client: ReturnType<typeof createVendorClient>,
  clock: Clock,
  key: AccessKey,
  region: string,
  signal: AbortSignal,
): Promise<string> {
  const request = await signAws(
    {
      url: `https://sts.${region}.${awsDomain(region)}/`,
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded; charset=utf-8" },
      body: "Action=GetCallerIdentity&Version=2011-06-15",
      service: "sts",
      region,
    },
    key,
    clock,
  );
  const answer = await client.request({ ...request, signal });
  const [, account] = /<Account>(\d{12})<\/Account>/.exec(answer.text) ?? [];
  if (answer.status === 200 && account !== undefined) return account;
  const { code, said } = xmlError(answer);
  const refusal = keyRefusal(code, said);
  if (refusal) throw new RingError(refusal.kind, refusal.message, { code });
  throw new RingError("transient", "AWS did not say whose the access key is.", { code: code || String(answer.status) });
}
