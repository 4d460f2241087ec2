-- A row is an idle gap between two busy stretches of a device and the one rule that it is blamed on (_explained_gap).

select * exclude (is_lead)
from _explained_gap
where not is_lead
