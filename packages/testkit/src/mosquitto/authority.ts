/** A certificate authority for one test run, made with OpenSSL. Keys are EC P-256 and live as long as the folder. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { commandPath } from "./available.ts";

const run = promisify(execFile);

export interface IssuedCertificate {
  /** PEM */
  readonly cert: string;
  /** PEM, without passphrase */
  readonly key: string;
}

export interface CertificateRequest {
  readonly commonName: string;
  /** Host names and IP addresses of a server. Left out for a client. */
  readonly hosts?: readonly string[];
}

export interface Authority {
  /** Its own certificate, PEM: what a client trusts. */
  readonly ca: string;
  issue(request: CertificateRequest): Promise<IssuedCertificate>;
  close(): Promise<void>;
}

export async function createAuthority(commonName = "LeafMesh test authority"): Promise<Authority> {
  const folder = await mkdtemp(join(tmpdir(), "leafmesh-ca-"));
  const caFile = join(folder, "ca.pem");
  const caKeyFile = join(folder, "ca.key");
  await request(caFile, caKeyFile, commonName, ["basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign"], []);
  let issued = 0;

  return {
    ca: await readFile(caFile, "utf8"),
    async issue({ commonName: name, hosts }) {
      const file = join(folder, `${++issued}.pem`);
      const keyFile = join(folder, `${issued}.key`);
      const names = hosts?.map((host) => `${/^[\d.]+$|:/.test(host) ? "IP" : "DNS"}:${host}`).join(",");
      const extensions = names === undefined ? ["extendedKeyUsage=clientAuth"] : [`subjectAltName=${names}`];
      await request(
        file,
        keyFile,
        name,
        ["basicConstraints=CA:FALSE", ...extensions],
        ["-CA", caFile, "-CAkey", caKeyFile],
      );
      return { cert: await readFile(file, "utf8"), key: await readFile(keyFile, "utf8") };
    },
    async close() {
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function request(
  file: string,
  keyFile: string,
  commonName: string,
  extensions: readonly string[],
  signedBy: readonly string[],
): Promise<void> {
  await run(commandPath("openssl"), [
    ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"],
    ...["-subj", `/CN=${commonName}`, "-out", file, "-keyout", keyFile],
    ...extensions.flatMap((extension) => ["-addext", extension]),
    ...signedBy,
  ]);
}
