// Plays Pi for guard's extension: loads it as Pi does and carries out steps.
//
//	node pi_harness.mjs JITI EXTENSION STEPS
//
// STEPS is a JSON list; each answers with one line of JSON.
//
//	{"load": true}                loads the extension
//	{"event": NAME, "arg": {…}}   calls the handlers of an event, as Pi's runner does
//	{"run": CODE}                 runs code that may spoil this process; it sees arg and pi
//	{"tool": NAME, "arg": {…}}    calls a tool that was registered
//	{"at_once": [steps]}          carries steps out beside each other
const [, , jitiPath, extension, steps] = process.argv;
const { createJiti } = await import(jitiPath);
const { parse, stringify } = JSON, { write } = process.stdout, out = process.stdout;
let handlers = {}, tools = {};
const pi = {
  on: (name, f) => (handlers[name] ??= []).push(f),
  registerTool: (tool) => (tools[tool.name] = tool),
  getAllTools: () => ["read", "bash", "write", "grep"].map((name) => ({ name, sourceInfo: { source: globalThis.posed === name ? "local" : "builtin" } })),
};
const ctx = { cwd: "/project", mode: "rpc", sessionManager: { getSessionId: () => (globalThis.stale ? stale() : "p1") } };
const load = async () => {
  handlers = {}, tools = {};
  const factory = await createJiti(import.meta.url, { moduleCache: false, tryNative: false }).import(extension, { default: true });
  await factory(pi);
  return "loaded";
};
const emit = async (name, arg) => {
  let result;
  for (const f of handlers[name] ?? []) {
    const one = await f(arg, globalThis.signal ? { ...ctx, signal: globalThis.signal } : ctx);
    if (one) result = one;
    if (one?.block) break;
  }
  return result;
};
const act = async (s) => {
  try {
    if (s.load) return await load();
    if (s.run) return await new Function("arg", "pi", "handlers", "require", s.run)(globalThis.last, pi, handlers, process.getBuiltinModule("node:module").createRequire(import.meta.url));
    if (s.tool) return await tools[s.tool].execute("t", s.arg);
    if (s.at_once) return await Promise.all(s.at_once.map(act));
    globalThis.last = typeof s.arg === "string" ? new Function(`return ${s.arg}`)() : s.arg;
    return (await emit(s.event, globalThis.last)) ?? null;
  } catch (error) {
    return { threw: `${error.message}` };
  }
};
for (const s of parse(steps)) {
  const result = await act(s);
  write.call(out, `${stringify(result ?? null)}\n`);
}
