/** What has to be in moto before it is guarded: users with rights, and what they may reach. */
import { Secret, systemClock } from "@leafmesh/protocol";
import { createVendorClient } from "../src/http/index.ts";
import { signAws } from "../src/providers/aws-access-key.ts";
import type { Moto } from "./moto.ts";

/** As a record has it. */
export interface Key {
  readonly access_key_id: string;
  readonly secret_access_key: string;
}

interface QueryService {
  readonly host: string;
  readonly service: string;
  readonly region: string;
  readonly version: string;
}

const IAM = { host: "iam.amazonaws.com", service: "iam", region: "us-east-1", version: "2010-05-08" };
/** The first request makes moto load a service. */
const TIMEOUT_MS = 20_000;

/** Texts of the answer to a request of the query protocol, by their names. Throws when it is refused. */
export async function queryMoto(
  { network }: Moto,
  { host, service, region, version }: QueryService,
  fields: Readonly<Record<string, string>>,
  ...wanted: readonly string[]
): Promise<readonly string[]> {
  const client = createVendorClient({ clock: systemClock, network });
  const body = new URLSearchParams({ ...fields, Version: version }).toString();
  const headers = { "content-type": "application/x-www-form-urlencoded; charset=utf-8" };
  const anybody = { access_key_id: "AKIAIOSFODNN7EXAMPLE", secret_access_key: new Secret("not looked at yet") };
  const unsigned = { url: `https://${host}/`, method: "POST", headers, body, service, region } as const;
  try {
    const signed = await signAws(unsigned, anybody, systemClock);
    const { status, text } = await client.request({
      ...signed,
      signal: new AbortController().signal,
      timeoutMs: TIMEOUT_MS,
    });
    if (status !== 200) throw new Error(`moto answered ${fields.Action} with ${status}: ${text}`);
    return wanted.map((name) => new RegExp(`<${name}>([^<]*)<`).exec(text)?.[1] ?? "");
  } finally {
    await client.close();
  }
}

/** The key of a new user who has these rights on everything. moto has to play `iam.amazonaws.com`. */
export async function makeKey(moto: Moto, UserName: string, rights: readonly string[]): Promise<Key> {
  await queryMoto(moto, IAM, { Action: "CreateUser", UserName });
  const Statement = [{ Effect: "Allow", Action: rights, Resource: "*" }];
  const PolicyDocument = JSON.stringify({ Version: "2012-10-17", Statement });
  await queryMoto(moto, IAM, { Action: "PutUserPolicy", UserName, PolicyName: "ring", PolicyDocument });
  const names = ["AccessKeyId", "SecretAccessKey"];
  const [id = "", secret = ""] = await queryMoto(moto, IAM, { Action: "CreateAccessKey", UserName }, ...names);
  return { access_key_id: id, secret_access_key: secret };
}
