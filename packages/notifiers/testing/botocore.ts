/** botocore, the part of Amazon's own Python client that signs: it judges signatures where Python has it. */
import { spawnSync } from "node:child_process";
import * as z from "zod";

/** A request before it is signed, at its time. */
export interface RequestToSign {
  readonly method: string;
  readonly url: string;
  /** All that are signed, the date and the token included. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly service: string;
  readonly region: string;
  readonly keyId: string;
  readonly secret: string;
}

const WITHIN_MS = 20_000;
const SIGN = `
import json, sys
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
signed = []
for r in json.load(sys.stdin):
    auth = SigV4Auth(Credentials(r["keyId"], r["secret"]), r["service"], r["region"])
    request = AWSRequest(method=r["method"], url=r["url"], data=r["body"].encode(), headers=r["headers"])
    request.context["timestamp"] = r["headers"]["x-amz-date"]
    to_sign = auth.string_to_sign(request, auth.canonical_request(request))
    names = auth.signed_headers(auth.headers_to_sign(request))
    signed.append([names, auth.signature(to_sign, request)])
json.dump(signed, sys.stdout)
`;

/** Why it cannot be had here, in one sentence; `undefined` when it can. */
export function botocoreMissing(): string | undefined {
  const { error, status } = python("import botocore.auth", "");
  if (error) return "there is no python3 on the PATH";
  return status === 0 ? undefined : "python3 has no botocore (pip install botocore)";
}

/** Names of the signed headers, and the signature, of each. */
export function botocoreSignatures(requests: readonly RequestToSign[]): readonly (readonly [string, string])[] {
  const { status, stdout, stderr } = python(SIGN, JSON.stringify(requests));
  if (status !== 0) throw new Error(`botocore ended with ${status}: ${stderr}`);
  return z.array(z.tuple([z.string(), z.string()])).parse(JSON.parse(stdout));
}

function python(program: string, input: string) {
  return spawnSync("python3", ["-c", program], { input, encoding: "utf8", timeout: WITHIN_MS });
}
