// Guard's extension for Pi: it asks guard-gate before every tool call and before
// every shell line of a person, tells it what else happens, and blocks whatever
// was not clearly passed. It decides nothing itself.
//
// The launcher describes the gate in GUARD_PI, as JSON:
//
//	gate      absolute path of guard-gate
//	args      its arguments, but for --role and --deadline: ["pi", "--socket", …]
//	deadline  seconds that it may take for an answer
//	guard     absolute path of guard, for the recovery tool
//	server    16 hex digits that name the recovery tool; "": there is none
//	env       environment of guard, as an object; the gate's is empty
//
// Without that, or with less, loading fails and Pi ends with status 1.
//
// A call passes on one thing alone: the gate has ended with status 0 and has
// written exactly {"pass":true}, or that with a "context" for the model. Another
// status, a signal, another output, more of it, a gate that can't be started or
// takes too long, and any fault in here are a block.
//
// What other code in this process can do: everything, by patching Pi itself. So
// no other extension is loaded. Against accidents, and against what is patched
// after this file was loaded, the functions that a verdict depends on are taken
// and bound here once, and no object that decides looks anything up in
// Object.prototype. The input is frozen before it is judged, so what runs is what
// was judged; a handler that would change it fails, which Pi takes for a block.
import { spawn } from "node:child_process";
import { homedir } from "node:os";
import { types } from "node:util";

const { isArray } = Array;
const { freeze, getOwnPropertyDescriptor, getPrototypeOf, hasOwn, defineProperty } = Object;
const { ownKeys } = Reflect;
const { parse, stringify } = JSON;
const { isFinite, isInteger } = Number;
const { now } = Date;
const { concat } = Buffer;
const { isProxy } = types;
const { setTimeout, clearTimeout, Error, Promise } = globalThis;
const plain = Object.prototype;
const call = Function.prototype.bind.bind(Function.prototype.call);
const decode = call(Buffer.prototype.toString);
const test = call(RegExp.prototype.test);
const startsWith = call(String.prototype.startsWith);
const slice = call(String.prototype.slice);
const indexOf = call(String.prototype.indexOf);
const trim = call(String.prototype.trim);
const push = call(Array.prototype.push);
const join = call(Array.prototype.join);
const home = homedir();

const maxOutput = 64 * 1024; // the gate never writes more
const maxMessage = 8 * 1024 * 1024; // of the recovery tool: the context documents, escaped
const maxReason = 1000;
const maxHeld = 10_000; // calls whose results are still to come
const grace = 5; // seconds that the gate has beyond its own deadline
const observing = 5; // seconds that the gate has to hand an event on
const recovering = 60; // seconds that a call of the recovery tool has

// record is an object without a prototype: what it lacks, it lacks.
const record = (fields) => {
  const made = { __proto__: null };
  const keys = ownKeys(fields);
  for (let i = 0; i < keys.length; i++) made[keys[i]] = fields[keys[i]];
  return freeze(made);
};

const reason = (code, what, cause) => `guard: ${code}: ${what}: ${cause}. Next: guard doctor`;

// settings reads GUARD_PI. Every error is one of loading.
const settings = () => {
  const need = (ok, what) => {
    if (!ok) throw new Error(`guard: config_invalid: reading GUARD_PI: ${what}. Next: start pi with: guard launch pi`);
  };
  const text = (v) => typeof v === "string" && indexOf(v, "\0") < 0;
  const object = (v) => typeof v === "object" && v !== null && !isArray(v);
  const path = (v) => text(v) && startsWith(v, "/");
  need(process.env.JITI_FS_CACHE === "false", "JITI_FS_CACHE is not false, so this file may come from a cache that others write");
  let given;
  try {
    given = parse(process.env.GUARD_PI);
  } catch {
    given = undefined;
  }
  need(object(given), "it is missing, or no JSON object");
  const { gate, args, deadline, guard, server, env } = record({ env: {}, ...given });
  need(path(gate), "gate is no absolute path");
  need(path(guard), "guard is no absolute path");
  need(isArray(args) && args[0] === "pi" && args.every(text), "args are not those of the gate");
  need(isInteger(deadline) && deadline >= 1 && deadline <= 570, "deadline is not 1 to 570 seconds");
  need(text(server) && test(/^([0-9a-f]{16})?$/, server), "server is not 16 hex digits");
  need(object(env) && ownKeys(env).every((name) => text(env[name])), "env holds more than strings");
  const asks = (role, seconds) => record({ seconds, args: freeze([...args, "--role", role, "--deadline", `${seconds}`]) });
  return record({ gate, guard, server, env: record(env), decide: asks("decide", deadline), observe: asks("observe", observing) });
};

// encode writes a tool's input as JSON, and freezes it on the way. It takes plain
// data alone: what a getter, a toJSON or a proxy says may be another thing later.
const encode = (value) => {
  if (value === null || typeof value === "boolean" || typeof value === "string") return stringify(value);
  if (typeof value === "number" && isFinite(value)) return stringify(value);
  const list = isArray(value);
  const parent = typeof value === "object" && !isProxy(value) ? getPrototypeOf(value) : undefined;
  if (!list && parent !== null && parent !== plain) throw new Error("the input is not plain JSON");
  freeze(value);
  const keys = ownKeys(value);
  const parts = [];
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    const { enumerable, value: held } = record(getOwnPropertyDescriptor(value, key));
    if (list && key === "length") continue;
    if (typeof key !== "string" || !enumerable) throw new Error("the input has a hidden property");
    if (held === undefined && !list) continue; // as JSON does
    push(parts, list ? encode(held) : `${stringify(key)}:${encode(held)}`);
  }
  if (list && parts.length !== value.length) throw new Error("the input has a list with gaps");
  return list ? `[${join(parts, ",")}]` : `{${join(parts, ",")}}`;
};

// start starts a child. All options are given, so that none is looked up in a
// prototype. It stays in Pi's own process group and session: that, and that Pi has
// made its stdin, is how the broker knows it from what a tool has started.
const start = (program, args, env, errors) =>
  spawn(program, args, record({
    cwd: "/", env, stdio: ["pipe", "pipe", errors], detached: false, shell: false, argv0: undefined, uid: undefined, gid: undefined,
    signal: undefined, timeout: undefined, killSignal: undefined, serialization: undefined, windowsHide: true, windowsVerbatimArguments: false,
  }));

// run hands the gate a payload and answers {status, out, err} or {failed, cause}.
// The timer holds Pi: with nothing pending it would end as if all were done.
const run = (gate, { args, seconds }, payload, signal) =>
  new Promise((resolve) => {
    let child, over = false, size = 0;
    const outs = [], errs = [];
    const finish = (result) => {
      over = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      resolve(record(result));
    };
    const fail = (failed, cause) => {
      if (over) return;
      finish({ failed, cause });
      child?.kill("SIGKILL");
    };
    const abort = () => fail("deadline", "the call was aborted");
    const timer = setTimeout(fail, (seconds + grace) * 1000, "deadline", `the gate has not answered within ${seconds + grace} s`);
    const collect = (into) => (chunk) => {
      size += chunk.length;
      if (size > 2 * maxOutput) fail("internal", "the gate has written too much");
      else push(into, chunk);
    };
    try {
      child = start(gate, args, record({}), "pipe");
      child.on("error", (error) => fail("broker_unavailable", `the gate can't be started (${error.code})`));
      child.on("close", (status, killed) => {
        if (killed !== null) fail("internal", `the gate was ended by ${killed}`);
        else if (!over) finish({ status, out: decode(concat(outs)), err: decode(concat(errs)) });
      });
      child.stdin.on("error", () => {}); // its status says more
      child.stdout.on("data", collect(outs));
      child.stderr.on("data", collect(errs));
      child.stdin.end(payload);
      if (signal?.aborted) abort();
      else signal?.addEventListener("abort", abort);
    } catch (error) {
      fail("internal", `${error?.message}`);
    }
  });

// verdict reads what the gate has answered: why it is a block, or else "", with a
// context for the model.
const verdict = (what, answer) => {
  const block = (why) => record({ why: slice(why, 0, maxReason), context: "" });
  if (answer.failed) return block(reason(answer.failed, what, answer.cause));
  if (answer.status === 2 && trim(answer.err) !== "") return block(trim(answer.err));
  if (answer.status !== 0) return block(reason("internal", what, `the gate has ended with status ${answer.status}`));
  if (answer.out === '{"pass":true}') return record({ why: "", context: "" });
  let context;
  try {
    const said = parse(answer.out);
    context = hasOwn(said, "context") ? said.context : undefined;
  } catch {
    context = undefined;
  }
  if (typeof context === "string" && answer.out === `{"pass":true,"context":${stringify(context)}}`) return record({ why: "", context });
  return block(reason("internal", what, "what the gate has answered is no pass"));
};

// payload is what the gate hands on to the broker.
const payload = (name, ctx, fields, input) => {
  const parts = [`"hook_event_name":${stringify(name)}`, `"session_id":${stringify(ctx.sessionManager.getSessionId())}`];
  const known = record({ cwd: ctx.cwd, mode: ctx.mode, home, ...fields });
  const keys = ownKeys(known);
  for (let i = 0; i < keys.length; i++) {
    const value = known[keys[i]];
    if (typeof value === "string" || typeof value === "number") push(parts, `${stringify(keys[i])}:${stringify(value)}`);
  }
  if (input !== undefined) push(parts, `"tool_input":${input}`);
  return `{${join(parts, ",")}}`;
};

const named = (event) => ({ tool_name: event.toolName, tool_use_id: event.toolCallId, parent_tool_use_id: event.parentToolCallId });

// server speaks MCP with guard's own recovery tool, which the broker knows by its
// process: there is one as long as Pi lives, whatever is loaded anew.
const server = (config) => {
  let child, line = "", last = 0, ready;
  const waiting = new Map();
  const drop = (why) => {
    child?.kill("SIGKILL");
    child = ready = undefined;
    line = "";
    for (const [id, { reject }] of waiting) waiting.delete(id), reject(new Error(why));
  };
  const hear = (chunk) => {
    line += chunk;
    if (line.length > maxMessage) return drop("the recovery tool has written too much");
    for (let end; (end = indexOf(line, "\n")) >= 0; line = slice(line, end + 1)) {
      let said;
      try {
        said = parse(slice(line, 0, end));
      } catch {
        return drop("the recovery tool has answered no JSON");
      }
      const asked = waiting.get(said?.id);
      waiting.delete(said?.id);
      if (said?.error) asked?.reject(new Error(`${said.error.message}`));
      else asked?.resolve(said?.result);
    }
  };
  const send = (message) => child.stdin.write(`${stringify({ jsonrpc: "2.0", ...message })}\n`);
  const ask = (method, params) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(drop, recovering * 1000, "the recovery tool takes too long");
      const settle = (then) => (value) => (clearTimeout(timer), then(value));
      waiting.set(++last, { resolve: settle(resolve), reject: settle(reject) });
      send({ id: last, method, params });
    });
  const greet = async () => {
    child = start(config.guard, ["mcp", "--server", `guard-${config.server}`], config.env, "ignore");
    child.on("error", () => drop("the recovery tool can't be started"));
    child.on("exit", () => drop("the recovery tool has ended"));
    child.stdin.on("error", () => drop("the recovery tool doesn't listen"));
    child.stdout.setEncoding("utf8").on("data", hear);
    child.unref(), child.stdin.unref(), child.stdout.unref(); // Pi ends without asking it
    await ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "guard.js", version: "1" } });
    send({ method: "notifications/initialized" });
    return (await ask("tools/list", {})).tools[0];
  };
  const tool = () => (ready ??= greet());
  const recover = async (input) => {
    await tool();
    const { content, isError } = await ask("tools/call", { name: "recover", arguments: input });
    if (isError) throw new Error(content[0].text);
    return { content: [{ type: "text", text: content[0].text }], details: {} };
  };
  return record({ tool, recover });
};

// once holds what outlives a reload of this file: the settings that were in force
// first, and the recovery tool.
const once = () => {
  const key = Symbol.for("leaseguard.pi");
  if (!hasOwn(globalThis, key)) {
    const config = settings();
    defineProperty(globalThis, key, record({ value: record({ config, recovery: config.server && server(config) }), writable: false, configurable: false }));
  }
  return globalThis[key];
};

export default async function guard(pi) {
  const { config, recovery } = once();
  const held = new Map(); // of calls that were passed: when, and what the model is to be told
  let owed; // an event that the gate has not taken

  const tell = async (text) => (await run(config.gate, config.observe, text)).status === 0;
  const judge = async (tool, text, signal) => {
    const what = `judging ${stringify(slice(`${tool}`, 0, 100))}`;
    if (owed !== undefined && !(await tell(owed))) return verdict(what, record({ failed: "broker_unavailable", cause: "an event before it could not be told" }));
    owed = undefined;
    return verdict(what, await run(config.gate, config.decide, text, signal));
  };
  const observe = async (text) => {
    if (!(await tell(text))) owed = text;
  };
  // Pi's reading tools are known by name, so the name must be Pi's own.
  const posed = (name) => {
    const own = { __proto__: null, read: true, grep: true, find: true, ls: true };
    return own[name] === true && !pi.getAllTools().some((tool) => tool.name === name && tool.sourceInfo?.source === "builtin");
  };

  pi.on("tool_call", async (event, ctx) => {
    try {
      if (isArray(event.input)) throw new Error("the input is no object");
      if (posed(event.toolName)) throw new Error("another extension has taken the name of a tool of Pi's");
      const text = payload("tool_call", ctx, named(event), encode(event.input));
      const { why, context } = await judge(event.toolName, text, ctx.signal);
      if (why !== "") return record({ block: true, reason: why });
      if (held.size >= maxHeld) held.clear();
      held.set(event.toolCallId, record({ context, since: now() }));
    } catch (error) {
      return record({ block: true, reason: reason("internal", "judging a call", `${error?.message}`) });
    }
  });

  pi.on("user_bash", async (event, ctx) => {
    let why;
    try {
      why = (await judge("user_bash", payload("user_bash", ctx, { tool_name: "user_bash" }, encode({ command: event.command })))).why;
    } catch (error) {
      why = reason("internal", "judging a line", `${error?.message}`);
    }
    if (why !== "") return record({ result: record({ output: why, exitCode: 126, cancelled: false, truncated: false }) });
  });

  pi.on("tool_result", async (event, ctx) => {
    const { context, since } = held.get(event.toolCallId) ?? record({ context: "", since: now() });
    held.delete(event.toolCallId);
    let input = "{}"; // an input that is none any more is told as another one
    try {
      input = encode(event.input);
    } catch {}
    await observe(payload("tool_result", ctx, { ...named(event), duration_ms: now() - since }, input));
    if (context !== "") return { content: [...event.content, { type: "text", text: context }], structuredContent: event.structuredContent };
  });

  pi.on("session_start", (event, ctx) => observe(payload("session_start", ctx, { source: `${event.reason}` })));
  for (const name of ["session_shutdown", "session_before_compact", "session_compact", "session_before_switch", "session_before_fork", "session_tree"]) {
    pi.on(name, async (event, ctx) => {
      await observe(payload(name, ctx, { reason: event.reason }));
    });
  }

  if (recovery) {
    const { description, inputSchema } = await recovery.tool();
    pi.registerTool({
      name: `guard_${config.server}_recover`, label: "Recover the lease", description, parameters: inputSchema,
      execute: (_id, input) => recovery.recover(input),
    });
  }
}
