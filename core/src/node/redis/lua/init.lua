-- KEYS record, quarantine; ARGV the record that was read, the new one, quarantine in ms, and why it begins.
local call = redis.call
local record_key, quarantine_key = unpack(KEYS)
local expected, record, quarantine, cause = unpack(ARGV)
local stored = call('GET', record_key) or ''
if stored ~= expected then return {0, string.sub(stored, 1, 2048)} end
if tonumber(quarantine) > math.max(0, call('PTTL', quarantine_key)) then call('SET', quarantine_key, cause, 'PX', quarantine) end
call('SET', record_key, record)
return {1, record}
