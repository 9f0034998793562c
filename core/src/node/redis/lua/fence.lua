-- The fence of a vote that is given, and the reply: put into the scripts where they say so. `counter` is its key.
if not record then return 1 end
local fence = candidate
if fence == '0' then
  -- No candidate: nothing is counted, and the stored value was another's.
  fence = call('ZSCORE', counter, 'f')
  fence = fence and string.format('%.0f', fence) or ''
elseif fence ~= '' then
  if tonumber(fence) > now + 10000000 then fence = string.format('%.0f', now + 10000000) end
  local last = block and call('ZSCORE', counter, 'f')
  if last and last + block > tonumber(fence) then fence = string.format('%.0f', last + block) end
  if call('ZADD', counter, 'GT', 'CH', fence, 'f') == 0 then
    fence = string.format('%.0f', call('ZINCRBY', counter, '1', 'f'))
  end
  -- The lease's own first fence, by the first 48 bits of its token, for the inspection.
  local own = string.format('%.0f', math.max(fence - (block or 1) + 1, 0))
  call('ZADD', counter, own, 'h', string.format('%.0f', tonumber(string.sub(mine, 1, 12), 16) or 0), 't')
  if counter_life ~= '' then call('PEXPIRE', counter, counter_life) end
end
return {1, fence, time[1], time[2]}
