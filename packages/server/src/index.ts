export { isLoopback } from "./access.ts";
export { type Api, createApi } from "./app.ts";
export type { ApiDependencies, AskControl, LinkControl } from "./dependencies.ts";
export { ListenError, type Listening, type ListenOptions, listen, type MountedService } from "./listen.ts";
