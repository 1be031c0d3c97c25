import type { Mesh } from "@leafmesh/core";
import { Secret } from "@leafmesh/protocol";

const MAX_DEPTH = 8;

/** Every secret of a mesh, for the log's second net: what is known as a secret is blanked out wherever it stands. */
export function secretsOf(mesh: Mesh): readonly Secret[] {
  const found = new Set<Secret>();
  collect([...mesh.models.values()], found, 0);
  collect([...mesh.connections.values()], found, 0);
  collect([...(mesh.tools?.values() ?? [])], found, 0);
  collect(mesh.server, found, 0);
  collect(mesh.storage, found, 0);
  const password = mesh.storage.address && passwordOf(mesh.storage.address);
  if (password) found.add(password);
  return [...found];
}

/** The password in a database's address, which may stand alone in a message. */
function passwordOf(address: Secret): Secret | undefined {
  const { password } = new URL(address.reveal());
  return password === "" ? undefined : new Secret(decodeURIComponent(password));
}

function collect(value: unknown, found: Set<Secret>, depth: number): void {
  if (value instanceof Secret) found.add(value);
  else if (typeof value === "object" && value !== null && depth < MAX_DEPTH) {
    for (const each of Object.values(value)) collect(each, found, depth + 1);
  }
}
