/** LeafMesh in a process of your own: what `leafmesh run` does, as functions. */
export type { CliContext, ExitCode } from "./context.ts";
export { type ProviderDefinitions, providerRegistry } from "./registry.ts";
export { type RunningMesh, type StartMeshOptions, startMesh } from "./runtime/start-mesh.ts";
export { version } from "./version.ts";
