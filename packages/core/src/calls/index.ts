export { type AskQuery, askView, getAsk, listAsks } from "./ask-view.ts";
export {
  type Alongside,
  createPendingCalls,
  type FirstOpen,
  type GroupMoved,
  type GroupSettlement,
  isOpenCall,
  isOpenState,
  type Moved,
  type NewCall,
  type OpenCall,
  type OpenCallState,
  type PendingCalls,
  type Settlement,
} from "./pending-calls.ts";
