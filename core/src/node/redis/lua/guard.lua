-- Whether this node may answer a request that gives or keeps a vote, put into the scripts where they say so: 4, where the node
-- holds another record than the one it was admitted with; 5, where the request comes too late. A guarded request reads the
-- lock's key together with the record and the quarantine, in one call.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value, quarantine
if record and record ~= '' then
  local m = call('MGET', lock, record_key, quarantine_key)
  if record ~= '-' and m[2] ~= record then return {4, time[1], time[2]} end
  value, quarantine = m[1], m[3]
end
if record and now > tonumber(not_after) then return {5, time[1], time[2]} end
