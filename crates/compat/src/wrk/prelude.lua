-- The table `wrk` that scripts know, and the ways to the functions that they may define.
-- A function is looked up each time it is called: a script may give itself another one while it runs.
local wrk = {
   scheme  = "http",
   host    = "localhost",
   method  = "GET",
   path    = "/",
   headers = {},
}

local concat, pairs, tostring, type = table.concat, pairs, tostring, type

-- A request as text: what is given, and for the rest what the table says.
function wrk.format(method, path, headers, body)
   local fields = headers or wrk.headers
   body = body or wrk.body
   local lines = { method or wrk.method, " ", path or wrk.path, " HTTP/1.1\r\n" }
   local count = 4
   local has_host = false
   for name, value in pairs(fields) do
      if name == "Host" then
         has_host = true
      end
      if name ~= "Content-Length" then
         lines[count + 1] = name
         lines[count + 2] = ": "
         lines[count + 3] = type(value) == "boolean" and tostring(value) or value
         lines[count + 4] = "\r\n"
         count = count + 4
      end
   end
   if not has_host and wrk.headers["Host"] then
      lines[count + 1] = "Host: "
      lines[count + 2] = wrk.headers["Host"]
      lines[count + 3] = "\r\n"
      count = count + 3
   end
   if body then
      lines[count + 1] = "Content-Length: "
      lines[count + 2] = #body
      lines[count + 3] = "\r\n\r\n"
      lines[count + 4] = body
   else
      lines[count + 1] = "\r\n"
   end
   return concat(lines)
end

-- The addresses of the server that can be connected to.
function wrk.resolve(host, service)
   local reached = {}
   for _, address in ipairs(wrk.lookup(host, service)) do
      if wrk.connect(address) then
         reached[#reached + 1] = address
      end
   end
   wrk.addrs = reached
end

function wrk.setup(thread)
   thread.addr = wrk.addrs[1]
   if type(setup) == "function" then
      setup(thread)
   end
end

function wrk.init(arguments)
   if not wrk.headers["Host"] then
      local host = wrk.host
      if host:find(":", 1, true) then
         host = "[" .. host .. "]"
      end
      wrk.headers["Host"] = wrk.port and (host .. ":" .. wrk.port) or host
   end
   if type(init) == "function" then
      init(arguments)
   end
   local whole = wrk.format()
   function wrk.request()
      return whole
   end
end

local calls = {}

function calls.request()
   if type(request) == "function" then
      return request()
   end
   return wrk.request()
end

function calls.response(status, headers, body)
   if type(response) == "function" then
      response(status, headers, body)
   end
end

function calls.delay()
   if type(delay) == "function" then
      return delay()
   end
   return 0
end

return wrk, calls
