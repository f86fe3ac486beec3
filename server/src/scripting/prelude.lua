-- The sandbox of scripts. Runs once in each interpreter, with the full base library in its globals, and answers what
-- handles the errors of a script and what it sees. What is local here cannot be reached by scripts.
local native = ...
local rawnext, rawpairs, rawsettable, rawgettable = next, pairs, rawset, rawget
local getmeta, setmeta, raise, typeof = getmetatable, setmetatable, error, type
local call, xcall, parse, count = pcall, xpcall, loadstring, select
local setenvironment, join, resume = setfenv, table.concat, coroutine.resume
local translate = native.translate

local byte_at, replace, text_of = string.byte, string.gsub, tostring
local find = string.find

-- Repetitions in one pattern: each may take some of the thread's stack.
local REPETITIONS_MAX = 2000

local READONLY = "Attempt to modify a readonly table"

-- What scripts may not change: an empty table that stands before each, to the table itself.
local behind = setmeta({}, { __mode = "k" })

local function refuse()
  raise(READONLY, 2)
end

local function protect(real, meta)
  meta = meta or {}
  meta.__index = real
  meta.__newindex = refuse
  local front = setmeta({}, meta)
  behind[front] = real
  return front
end

local function wants_table(value, name, got)
  if typeof(value) ~= "table" then
    raise("bad argument #1 to '" .. name .. "' (table expected, got " .. (got == 0 and "no value" or typeof(value)) .. ")", 3)
  end
end

-- Functions of the base library that go round metatables: they see what stands behind, and change nothing there.
local base = {}

function base.next(...)
  local t, k = ...
  wants_table(t, "next", count("#", ...))
  return rawnext(behind[t] or t, k)
end

function base.pairs(...)
  local t = ...
  wants_table(t, "pairs", count("#", ...))
  if behind[t] then
    return base.next, t, nil
  end
  return rawnext, t, nil
end

function base.rawget(...)
  local t, k = ...
  wants_table(t, "rawget", count("#", ...))
  return rawgettable(behind[t] or t, k)
end

function base.rawset(...)
  local t, k, v = ...
  wants_table(t, "rawset", count("#", ...))
  if behind[t] then
    raise(READONLY, 0)
  end
  return rawsettable(t, k, v)
end

function base.setmetatable(...)
  local t, m = ...
  wants_table(t, "setmetatable", count("#", ...))
  if behind[t] then
    raise(READONLY, 0)
  end
  if typeof(m) ~= "nil" and typeof(m) ~= "table" or count("#", ...) < 2 then
    raise("bad argument #2 to 'setmetatable' (nil or table expected)", 2)
  end
  -- Collectors are not run for tables; nothing else is to be told of what goes.
  return setmeta(t, m)
end

local of_strings, of_globals

function base.getmetatable(...)
  local value = ...
  if count("#", ...) == 0 then
    raise("bad argument #1 to 'getmetatable' (value expected)", 2)
  end
  if typeof(value) == "string" then
    return of_strings
  end
  if typeof(value) == "userdata" then
    return nil
  end
  if behind[value] then
    return (value == native.globals or value == native.library_globals) and of_globals or nil
  end
  return getmeta(value)
end

-- What a library function raises from within one of ours names the line of ours.
local function without_place(err)
  if typeof(err) == "string" and find(err, "^prelude:%d+: ") then
    return (replace(err, "^prelude:%d+: ", "", 1))
  end
  return err
end

local function caught(is_fine, ...)
  if is_fine then
    return true, ...
  end
  local err = without_place(translate((...)))
  if typeof(err) == "table" and typeof(rawgettable(err, "err")) == "string" then
    err = rawgettable(err, "err")
  end
  return false, err
end

function base.pcall(...)
  if count("#", ...) == 0 then
    raise("bad argument #1 to 'pcall' (value expected)", 2)
  end
  return caught(call(...))
end

local function translated(is_fine, ...)
  if is_fine then
    return true, ...
  end
  return false, without_place(translate((...)))
end

function base.xpcall(...)
  local f, handler = ...
  if count("#", ...) < 2 then
    raise("bad argument #2 to 'xpcall' (value expected)", 2)
  end
  return translated(xcall(f, function(err)
    -- A handler runs where nothing can stop it any more when its script is being stopped.
    if native.is_stopping() then
      return err
    end
    return handler(translate(err))
  end))
end

-- The parser holds things that the collector does not know to be in use: it rests meanwhile.
local function load_text(text, name)
  if #text > native.program_max then
    return nil, "program too long"
  end
  native.rest_collector()
  local f, err = parse(text, name)
  native.wake_collector()
  return f, err
end

local function is_compiled(text)
  return typeof(text) == "string" and byte_at(text) == 27
end

-- A compiled chunk is read as a text, and is none.
function base.loadstring(text, name)
  if is_compiled(text) then
    return load_text(" " .. text, name or text)
  end
  if typeof(text) ~= "string" and typeof(text) ~= "number" then
    raise("bad argument #1 to 'loadstring' (string expected, got " .. (text == nil and "no value" or typeof(text)) .. ")", 2)
  end
  text = text .. ""
  return load_text(text, name)
end

function base.load(reader, name)
  if typeof(reader) ~= "function" then
    raise("bad argument #1 to 'load' (function expected, got " .. (reader == nil and "no value" or typeof(reader)) .. ")", 2)
  end
  -- All of it is read before the parser begins: a reader runs code of the script.
  local pieces, size = {}, 0
  while true do
    local is_fine, piece = call(reader)
    if not is_fine then
      return nil, without_place(translate(piece))
    end
    if piece == nil or piece == "" then
      break
    end
    if typeof(piece) ~= "string" and typeof(piece) ~= "number" then
      return nil, "reader function must return a string"
    end
    size = size + #(piece .. "")
    if size > native.program_max then
      return nil, "program too long"
    end
    pieces[#pieces + 1] = piece
  end
  local text = join(pieces)
  return load_text(is_compiled(text) and " " .. text or text, name or "=(load)")
end

local tables = {}
for name, f in rawpairs(table) do
  tables[name] = f
end
for _, name in ipairs({ "insert", "remove", "sort", "setn" }) do
  local f = table[name]
  tables[name] = function(t, ...)
    if behind[t] then
      raise(READONLY, 0)
    end
    return f(t, ...)
  end
end
for _, name in ipairs({ "foreach", "foreachi", "concat", "getn", "maxn" }) do
  local f = table[name]
  tables[name] = function(t, ...)
    return f(behind[t] or t, ...)
  end
end

local coroutines = {}
for name, f in rawpairs(coroutine) do
  coroutines[name] = f
end
function coroutines.resume(...)
  return translated(resume(...))
end

for name, plain_at in rawpairs({ find = 4, match = 0, gmatch = 0, gfind = 0, gsub = 0 }) do
  local f = string[name]
  string[name] = function(...)
    local _, pattern = ...
    if typeof(pattern) == "string" and #pattern > REPETITIONS_MAX and not (plain_at > 0 and count("#", ...) >= plain_at) then
      local _, repetitions = replace(pattern, "[-*+?]", "")
      if repetitions > REPETITIONS_MAX then
        raise("pattern too complex", 2)
      end
    end
    return f(...)
  end
end
local strs = {}
for name, f in rawpairs(string) do
  strs[name] = f
end

local maths = {}
for name, f in rawpairs(math) do
  maths[name] = f
end
maths.random, maths.randomseed = native.random, native.randomseed

for name, f in rawpairs({
  assert = assert, collectgarbage = native.collectgarbage, error = error, gcinfo = gcinfo, ipairs = ipairs,
  rawequal = rawequal, select = select, tonumber = tonumber, tostring = tostring, type = type,
  unpack = native.unpack, _VERSION = _VERSION,
}) do
  base[name] = f
end
base.table, base.coroutine = protect(tables), protect(coroutines)
base.string, base.math = protect(strs), protect(maths)
of_strings = protect({ __index = base.string })
base.os = protect({ clock = native.clock })
for _, name in ipairs({ "redis", "cjson", "cmsgpack", "struct", "bit" }) do
  base[name] = protect(native[name])
end
-- Valkey's name for it.
base.server = base.redis

local function nonexistent(_, name)
  raise("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end
local globals_meta = { __index = nonexistent }
of_globals = protect(globals_meta)
setmeta(base, globals_meta)
local globals = protect(base)
base._G = globals
native.globals = globals

-- What functions see: the globals of scripts without what is for scripts alone. While a library is loaded it sees nothing
-- but its own table `redis`, which is `server`, too.
local of_functions, of_libraries = {}, {}
for name, value in rawpairs(base) do
  of_functions[name] = value
end
of_functions.os = nil
of_functions.redis = protect(native.redis_of_functions)
of_libraries.redis = protect(setmeta(native.redis_of_libraries, globals_meta))
of_functions.server, of_libraries.server = of_functions.redis, of_libraries.redis
setmeta(of_functions, globals_meta)
setmeta(of_libraries, globals_meta)
local library_meta = {}
local library_globals = protect(of_functions, library_meta)
of_functions._G = library_globals
native.library_globals = library_globals

local function show_libraries(real)
  library_meta.__index = real
  behind[library_globals] = real
end

-- What an error is answered with: its text, and the place of the script's code that has raised it.
local function handle(err)
  err = translate(err)
  local source, line = native.place()
  if typeof(err) == "string" and line and find(err, "^prelude:%d+: ") then
    err = replace(err, "^prelude:%d+: ", replace(source, "^@", "") .. ":" .. line .. ": ", 1)
  end
  if typeof(err) == "table" then
    if typeof(rawgettable(err, "err")) ~= "string" then
      err = { err = "ERR unknown error" }
    end
  else
    err = { err = "ERR " .. text_of(err) }
  end
  if source then
    rawsettable(err, "source", source)
    rawsettable(err, "line", line)
  end
  return err
end

-- Runs the text of a library, which registers its functions.
local function load_library(f)
  setenvironment(0, library_globals)
  show_libraries(of_libraries)
  local is_fine, value = xcall(f, handle)
  show_libraries(of_functions)
  return is_fine, value
end

return handle, load_library, base, globals, library_globals
