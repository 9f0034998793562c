-- KEYS lock, queue, reservation [, record, quarantine]; ARGV value, waiter, reservation in ms [, record]. Behind line.lua.
local call, K, A = redis.call, KEYS, ARGV
local m = call('MGET', K[1], K[3])
local held = A[1] ~= '' and m[1] == A[1]
if held then call('DEL', K[1]) end
if m[2] then
  -- What is released is released, whatever becomes of the line.
  pcall(function()
    local now = micros()
    local till, whose = string.match(m[2], '^(%d+) (.*)$')
    if A[2] ~= '' then call('ZREM', K[2], A[2], '!' .. A[2]) end
    if till and tonumber(till) > now and whose ~= A[2] then return end
    -- To reserve is to promise a vote: only where one may be given.
    local free = call('PTTL', K[1]) == -2
    if free and A[4] then
      local n = call('MGET', K[4], K[5])
      free = n[1] == A[4] and not n[2]
    end
    if not free or turn(nil, now, A[3]) then unreserve() end
  end)
end
return held and 1 or 0
