-- The device of an allocation as torch calls it, by c10's DeviceType: 'cpu', 'cuda:0', 'xpu:1' …; HIP's are 'cuda' to torch.

case try_cast(type as bigint)
    when 0 then 'cpu'
    when 1 then 'cuda:'
    when 6 then 'cuda:'
    when 12 then 'xpu:'
    when 13 then 'mps:'
    when 15 then 'hpu:'
    when 19 then 'mtia:'
    when 20 then 'privateuseone:'
    else 'device type ' || coalesce(type, '?') || ':'
end || if(try_cast(type as bigint) = 0, '', coalesce(index, '?'))
