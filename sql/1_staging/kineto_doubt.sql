-- A row is how many events of a piece that was read by kineto_typed have a number that is not whole, larger than its column or
-- larger than a double is exact: kineto_text has to read the piece again.
--
-- needs: batch

select count(*) as doubt_cnt
from batch
where correlation <> trunc(correlation) or abs(correlation) >= 9007199254740992
    or device <> trunc(device) or abs(device) >= 2147483648
    or context <> trunc(context) or abs(context) >= 9007199254740992
    or bytes <> trunc(bytes) or abs(bytes) >= 9007199254740992
    or graph_node <> trunc(graph_node) or abs(graph_node) >= 9007199254740992
    or sequence_number <> trunc(sequence_number) or abs(sequence_number) >= 9007199254740992
    or forward_thread <> trunc(forward_thread) or abs(forward_thread) >= 9007199254740992
    or waits_for_correlation <> trunc(waits_for_correlation) or abs(waits_for_correlation) >= 9007199254740992
    or (stream is not null and whole_text(stream) is null)
    or try_cast(grid as integer[])::double[] is distinct from grid
    or try_cast(block as integer[])::double[] is distinct from block
