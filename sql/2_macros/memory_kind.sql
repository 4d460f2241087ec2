-- Macro memory_kind(of_category): what memory of a category is called in a sentence: weights, temporaries …
--
-- As the rules of memory_finding are called, which take categories together.

create macro memory_kind(of_category) as
    case of_category
        when 'parameter' then 'weights'
        when 'adapter_parameter' then 'weights'
        when 'gradient' then 'gradients'
        when 'input' then 'inputs'
        when 'activation' then 'activations'
        when 'forward_result' then 'forward results'
        when 'temporary' then 'temporaries'
        when 'autograd_detail' then 'temporaries'
        when 'quantisation_workspace' then 'temporaries'
        else replace(of_category, '_', ' ')
    end;
